"""An event is waited for before it is first recorded, so the wait does nothing.

## Why it matters
An event that was never recorded counts as complete. `event.wait()`, `stream.wait_event(event)` and
`event.synchronize()` return without an error and order nothing, so the intended work stays unordered. A later
record does not count: a wait covers only records made before it.

## Fix
Record first, in program order: `event.record(producer)`, then `consumer.wait_event(event)`. If another thread
records the event, synchronize the host threads first, with a lock or a queue. If the first iteration of a
loop has nothing to wait for, skip the wait there.

## Source
torch 2.13, c10/cuda/CUDAEvent.h, `block` and `synchronize`; CUDA Runtime API, `cudaEventRecord` (before the
first call an event is an empty set of work).
Seen in <https://github.com/sgl-project/sglang/pull/14214> (waits that come before their record).
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN401",
    name="wait-before-record",
    severity=Severity.ERROR,
    message="{waiter} waits for {event} before it is first recorded, so the wait does nothing",
    doc=__doc__,
)
