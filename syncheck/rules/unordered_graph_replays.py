"""Two replays of graphs that share a memory pool are not ordered.

## Why it matters
A capture with the pool of another graph (`pool=g.pool()`, `torch.cuda.graph_pool_handle()`) takes memory that the
other graph has freed. Both then write their temporary results to the same addresses. If nothing orders their
replays, either graph can compute with the other one's values. A replay also overwrites results of graphs that
were captured later, even if another stream is still reading them.

## Fix
Let the stream of the later replay wait for the earlier replay, and for all work that reads its results. Or
capture without `pool=` the graphs that should run concurrently, which costs memory.

## Source
PyTorch notes, "CUDA semantics", section "CUDA Graphs", "Graph memory management": graphs may share a pool if they are
replayed in the order of their captures, and never concurrently.
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN905",
    name="unordered-graph-replays",
    severity=Severity.ERROR,
    message="{stream} replays a graph, unordered with {other}, which {does}",
    doc=__doc__,
)
