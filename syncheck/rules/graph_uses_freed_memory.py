"""A replay uses memory outside the graph's pool that was freed after the capture.

## Why it matters
A graph keeps addresses, not references. Memory that was allocated before the capture and freed after it
returns to the allocator and is reused for other tensors, which each replay then reads or overwrites. No wait
can fix that. An input that is bound to a new tensor before a replay is such a case: the graph still reads the
old one.

## Fix
Keep a reference to every outside tensor that the capture uses, for as long as the graph is replayed. Fill its
inputs, as in `inputs["positions"].copy_(positions)`, instead of replacing them. Let workspaces grow to their full
size before the capture. In PyTorch versions that have it, `torch.cuda.graph(g, check_input_liveness=True)` makes the
replay raise an error instead.

## Source
PyTorch notes, "CUDA semantics", section "CUDA Graphs", "Graph memory management"; torch 2.13,
torch/cuda/graphs.py, `check_input_liveness`.
Seen in <https://github.com/vllm-project/vllm/pull/55341>.
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN904",
    name="graph-uses-freed-memory",
    severity=Severity.ERROR,
    message="the replay uses {tensor}, which was freed after the capture",
    doc=__doc__,
)
