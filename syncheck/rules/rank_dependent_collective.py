"""A collective is called in a branch that only some ranks of its group take.

## Why it matters
A collective completes once every rank of its group has called it. Ranks that call it under `if rank == 0:`
wait for the others, which never arrive, until the timeout; or the call is matched with a different collective
of the other ranks.

## Fix
Move the call out of the branch so that every rank makes it. If only some ranks should take part, create a
group of just those ranks with `torch.distributed.new_group()`, which itself must be called by all ranks, or
use `send` and `recv`.

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
    message="{collective} is reached by only some ranks",
    doc=__doc__,
    words=tuple(
        (*condition, collective)
        for condition in (*_ABOUT_RANK, ("get_rank(", "=="))
        for collective in ("all_reduce", "all_gather", "broadcast", "reduce", "gather", "scatter", "all_to_all")
    ),
)
