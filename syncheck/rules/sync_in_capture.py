"""The host synchronizes inside a CUDA graph capture.

## Why it matters
During a capture nothing runs, so there is nothing to wait for and no value to read. CUDA rejects the call
("operation not permitted when stream is capturing") and the capture is lost. `.item()`, `.cpu()`, `nonzero()`
and indexing with a boolean mask synchronize too.

## Fix
Move the call out of the capture, or keep the value on the GPU, for example with `torch.where`. If only part
of the work can do without it, capture that part: `torch.cuda.make_graphed_callables()`.

## Source
PyTorch notes, "CUDA semantics", section "CUDA Graphs", "Constraints"; CUDA C++ Programming Guide, section
"Prohibited and Unhandled Operations".
Seen in <https://github.com/pytorch/pytorch/issues/78549>.
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN902",
    name="sync-in-capture",
    severity=Severity.ERROR,
    message="{call} is a host synchronization inside a graph capture",
    doc=__doc__,
)
