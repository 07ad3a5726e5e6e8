"""Work runs on several streams, but its order leaves no two operations free to overlap.

## Why it matters
Streams require waits and careful memory handling, and pay off only if operations actually run concurrently.
If each hand-over immediately waits in both directions, all operations run one after the other, as they would
on one stream.

## Fix
Wait as late as possible: directly before the result is used, with independent work launched in between. Wait
for an event recorded after the operation whose result is needed, rather than for the whole stream. If nothing
is independent, use one stream. Being free to overlap does not guarantee overlap: a kernel that fills the GPU
leaves no room for another.

## Source
PyTorch notes, "CUDA semantics", section "CUDA streams" (it is pointless to wait immediately); CUDA C++
Programming Guide, section "Overlapping Behavior".
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN803",
    name="no-overlap",
    severity=Severity.ADVICE,
    message="work on {stream} cannot overlap with any other: every operation is ordered with the others",
    doc=__doc__,
)
