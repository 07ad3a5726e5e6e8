"""Work was put on several streams, and their order leaves no two operations free to overlap.

## Why it matters
Streams cost waits and care for memory, and pay only if something runs at the same time. If each hand-over
waits in both directions at once, all operations run one after the other, as they would on one stream.

## Fix
Wait as late as possible: directly before the result is used, with independent work launched in between. Wait
for an event recorded after the operation that is needed, rather than for the whole stream. If nothing is
independent, use one stream. Being free to overlap is not a promise: a kernel that fills the GPU leaves no
room for another.

## Source
PyTorch notes, "CUDA semantics", section "CUDA streams" (it is pointless to wait immediately); CUDA C++
Programming Guide, section "Overlapping Behavior".
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN803",
    name="no-overlap",
    severity=Severity.ADVICE,
    message="work on {stream} overlaps nothing: its order leaves no two operations free",
    doc=__doc__,
)
