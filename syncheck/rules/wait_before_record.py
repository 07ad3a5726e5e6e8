"""An event is waited for before it was ever recorded, and such a wait does nothing.

## Why it matters
An event that was never recorded counts as complete. `event.wait()`, `stream.wait_event(event)` and
`event.synchronize()` return without an error and order nothing, so the work that was meant stays unordered. A
record made after the wait does not count: a wait looks at the records made before it.

## Fix
Record first, in the order of the program: `event.record(producer)`, then `consumer.wait_event(event)`. If
another thread records the event, let the host threads agree first, with a lock or a queue. If the first iteration
of a loop has nothing to wait for, skip the wait there.

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
    message="{waiter} waits for {event} before it was ever recorded, so it waits for nothing",
    doc=__doc__,
)
