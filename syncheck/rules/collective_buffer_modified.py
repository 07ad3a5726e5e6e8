"""A buffer is written while an asynchronous collective may still be using it.

## Why it matters
Until its work is complete, the collective reads its inputs and writes its outputs. A write in the meantime
changes what the other ranks receive, or is itself overwritten. No error is raised, and the ranks silently
diverge.

## Fix
Call `work.wait()` before the write, with the writing stream as the current stream. To keep the overlap, give
the collective a copy, or alternate between two buffers, each with its own handle.

## Source
PyTorch, `torch.distributed`, section "Synchronous and asynchronous collective operations".
Seen in <https://github.com/deepspeedai/DeepSpeed/pull/5606> (a bucket refilled while it was being
reduced).
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN602",
    name="collective-buffer-modified",
    severity=Severity.ERROR,
    message="{tensor} is written while {collective} may still be using it",
    doc=__doc__,
)
