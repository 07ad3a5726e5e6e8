"""A collective stands where some ranks of its group do not get.

## Why it matters
A collective is complete when every rank of its group has called it. Ranks that call it under `if rank == 0:`
wait for the others, which never come, until the timeout; or they meet the others' next collective, which is
not the same one.

## Fix
Move the call out of the branch, so that every rank makes it. If only some ranks are meant, make a group of
just those with `torch.distributed.new_group()`, which itself must be called by all ranks, or use `send` and
`recv`.

## Source
PyTorch, `torch.distributed`, section "Groups" (all processes must enter the call).
Seen in <https://github.com/huggingface/transformers-bloom-inference/pull/40>.
"""

from syncheck.rules.model import Rule, Severity

_ABOUT_RANK = tuple((words,) for words in ("rank ==", "rank==", "is_main_", "is_master_", "is_world_", "is_rank_"))

RULE = Rule(
    code="SYN605",
    name="rank-dependent-collective",
    severity=Severity.WARNING,
    message="{collective} is reached by some ranks only",
    doc=__doc__,
    words=tuple(
        (*condition, collective)
        for condition in (*_ABOUT_RANK, ("get_rank(", "=="))
        for collective in ("all_reduce", "all_gather", "broadcast", "reduce", "gather", "scatter", "all_to_all")
    ),
)
