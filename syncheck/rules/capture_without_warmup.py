"""A CUDA graph is captured without a warm-up run.

## Why it matters
The first run of an operator may initialize things: library handles, workspaces, the choice of an algorithm.
Inside a capture, this initialization can fail ("CUBLAS_STATUS_NOT_INITIALIZED"), or it becomes part of the
graph and runs in every replay.

## Fix
Run the same work a few times before the capture, on a side stream `s`: call
`s.wait_stream(torch.cuda.current_stream())`, do the runs inside `with torch.cuda.stream(s):`, then call
`torch.cuda.current_stream().wait_stream(s)`. `torch.cuda.make_graphed_callables()` does its own warm-up.

## Source
PyTorch notes, "CUDA semantics", section "CUDA Graphs" (warmup must occur on a side stream).
Seen in <https://github.com/pytorch/pytorch/issues/99397>.
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN901",
    name="capture-without-warmup",
    severity=Severity.WARNING,
    message="{operator} is captured into a graph without a warm-up run",
    doc=__doc__,
)
