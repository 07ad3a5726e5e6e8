"""elapsed_time() is called before both events are known to be complete.

## Why it matters
`record()` only enqueues the event on the stream. The event has a time once the GPU reaches it; until then,
the call raises an error ("Both events must be completed", in older versions "device not ready"). With little
work it may succeed by luck, but even an idle stream needs a moment: with `synchronize()` before
`end.record()` instead of after it, 19,324 of 20,000 calls right after the record raised the error on an H200,
14,313 with a call of `time.time_ns()` in between, and none after two microseconds. `Event.wait()` does not
help, because it never blocks the host. An event that was never recorded has no time at all.

## Fix
Call `end.synchronize()` before `start.elapsed_time(end)`. If the two events were recorded on different
streams, synchronize both. In a loop, keep the pairs of events and read all times after one synchronization.

## Source
torch 2.13, c10/cuda/CUDAEvent.h, `elapsed_time`; CUDA Runtime API, `cudaEventElapsedTime`
(`cudaErrorNotReady`). Measured on an H200 with torch 2.11, 2026-11-29 (tests/gpu/test_timing.py).
Seen in <https://github.com/pytorch/pytorch/issues/85796> and
<https://github.com/pytorch/tutorials/pull/3165>.
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN404",
    name="elapsed-time-before-sync",
    severity=Severity.ERROR,
    message="elapsed_time() is called before {event} is known to be complete",
    doc=__doc__,
)
