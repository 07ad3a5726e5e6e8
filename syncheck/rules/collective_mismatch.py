"""The ranks of one group issue different collectives, or the same ones in a different order, shape or dtype.

## Why it matters
The collectives of a group are matched by order alone. Ranks that disagree wait for each other forever, or
combine unrelated data and continue with wrong numbers.

## Fix
Issue the same sequence on every rank. Iterate over names in sorted order, never in the order of a set or of a
dictionary that each rank fills for itself, and agree on shapes first. `TORCH_DISTRIBUTED_DEBUG=DETAIL` makes
PyTorch check the function and the shapes of each collective.

## Source
NCCL User Guide, section "Collective Operations"; PyTorch, `torch.distributed`, section
"TORCH_DISTRIBUTED_DEBUG".
Seen in <https://github.com/NVIDIA/apex/issues/19> and
<https://github.com/Lightning-AI/pytorch-lightning/issues/19106>.
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN604",
    name="collective-mismatch",
    severity=Severity.ERROR,
    message="rank {rank} issues {operation} where {expected} is expected",
    doc=__doc__,
)
