"""A CUDA graph is captured with no warm-up run before it.

## Why it matters
The first run of an operator may set things up: library handles, workspaces, the choice of an algorithm.
Inside a capture such a step can fail ("CUBLAS_STATUS_NOT_INITIALIZED"), or become part of the graph and run
in every replay.

## Fix
Run the same work a few times before the capture, on a side stream `s`:
`s.wait_stream(torch.cuda.current_stream())`, the runs inside `with torch.cuda.stream(s):`, then
`torch.cuda.current_stream().wait_stream(s)`. `torch.cuda.make_graphed_callables()` warms up by itself.

## Source
PyTorch notes, "CUDA semantics", section "CUDA Graphs" (warmup must occur on a side stream).
Seen in <https://github.com/pytorch/pytorch/issues/99397>.
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN901",
    name="capture-without-warmup",
    severity=Severity.WARNING,
    message="{operator} is captured into a graph without a warm-up run before",
    doc=__doc__,
)
