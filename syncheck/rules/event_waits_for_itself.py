"""An event is waited for by the very stream that recorded it, and by nothing else: nothing waits.

## Why it matters
A stream runs its work in order, so it never has to wait for its own event. Where such a wait was written, the host
was meant to wait, or another stream: neither does, and what comes after may see results that are not there yet.

## Fix
`event.synchronize()` makes the host wait. For another stream, call `other.wait_event(event)`, or `event.wait()` while
the other stream is current. If the order of one stream was meant, remove the event.

## Source
torch 2.13, c10/cuda/CUDAEvent.h, `block`; CUDA Runtime API, `cudaStreamWaitEvent`.
Seen in <https://github.com/dmlc/dgl> (`python/dgl/distributed/optim/pytorch/sparse_optim.py`: copies to the host are
read behind `update_event.wait()`).
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN407",
    name="event-waits-for-itself",
    severity=Severity.WARNING,
    message="{stream} waits for {event}, which it has recorded itself, and nothing else waits for it",
    doc=__doc__,
)
