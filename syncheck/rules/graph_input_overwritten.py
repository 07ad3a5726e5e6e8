"""A graph's static input is written, or its output read, without being ordered with a replay that uses it.

## Why it matters
Every replay reads and writes the same addresses. A new input written from another stream while a replay runs
mixes two batches. An output that is read without a wait may be the previous one, half-written, or already the
next one. A lock between host threads does not help, because copies and replays are asynchronous.

## Fix
Fill the input and copy the output on the stream that calls `replay()`. Or wait in both directions:
`copy.wait_stream(replay)` before the write, `replay.wait_stream(copy)` before the next `replay()`. Clone an
output that must outlive the next replay.

## Source
PyTorch notes, "CUDA semantics", section "CUDA Graphs", "Constraints" (every replay uses the same addresses).
Seen in <https://github.com/sgl-project/sglang-omni/pull/1369>.
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN903",
    name="graph-input-overwritten",
    severity=Severity.ERROR,
    message="{stream} {verb} {tensor}, unordered with {other}, which replays a graph that uses it",
    doc=__doc__,
)
