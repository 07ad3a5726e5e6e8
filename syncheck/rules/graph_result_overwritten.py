"""The result of one replay of a CUDA graph is kept, and the next replay overwrites it.

## Why it matters
Every replay writes its results to the same addresses. A list of the results of several replays, or the result of
the previous one, refers to that memory: all of them have the values of the last replay. Nothing is unordered, so the
numbers are the same, and wrong, on every run.

## Fix
Copy what must outlive the next replay, on the stream that replays: `results.append(output.clone())`, or `.cpu()`.
Or copy it into the graph's own list of buffers, one for each result that is needed at the same time.

## Source
PyTorch notes, "CUDA semantics", section "CUDA Graphs", "Constraints" (every replay uses the same addresses);
torch/_inductor/cudagraph_trees.py: torch.compile refuses such a read, "accessing tensor output of CUDAGraphs that has
been overwritten by a subsequent run".
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN906",
    name="graph-result-overwritten",
    severity=Severity.ERROR,
    message="{tensor} is kept as the result of one replay of a CUDA graph, and the next replay overwrites it",
    doc=__doc__,
)
