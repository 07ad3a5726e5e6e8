"""An event is waited for only by the stream that recorded it, so the wait has no effect.

## Why it matters
A stream runs its work in order, so it never needs to wait for its own event. Usually the host or another
stream was meant to wait. Neither does, and later code may see results that are not ready.

## Fix
Call `event.synchronize()` to make the host wait. To make another stream wait, call `other.wait_event(event)`,
or `event.wait()` while the other stream is current. If only the order within one stream was intended, remove
the event.

## Source
torch 2.13, c10/cuda/CUDAEvent.h, `block`; CUDA Runtime API, `cudaStreamWaitEvent`.
Seen in <https://github.com/dmlc/dgl> (`python/dgl/distributed/optim/pytorch/sparse_optim.py`: copies to the
host are read after `update_event.wait()`).
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN407",
    name="event-waits-for-itself",
    severity=Severity.WARNING,
    message="{stream} waits for {event}, which it recorded itself, and nothing else waits for it",
    doc=__doc__,
)
