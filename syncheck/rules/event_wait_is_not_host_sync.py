"""Event.wait() makes a stream wait and does not block the host, but the host's next step relies on the work.

## Why it matters
`event.wait()` and `stream.wait_event(event)` return immediately. A host that then reads the result of an
asynchronous copy, calls `elapsed_time()` or reads a clock does so while the GPU is still working.
`torch.cuda.Event(blocking=True)` does not change that: it only determines how the host waits in
`synchronize()`.

## Fix
Call `event.synchronize()`, which blocks the host until the recorded work is complete. Use `event.wait()` only
to order one stream after another.

## Source
CUDA Runtime API, `cudaStreamWaitEvent` and `cudaEventSynchronize`; `torch.cuda.Event.wait`.
Seen in <https://github.com/pytorch/pytorch/issues/60541>; misleading documentation:
<https://github.com/pytorch/pytorch/issues/82061>.
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN402",
    name="event-wait-is-not-host-sync",
    severity=Severity.ERROR,
    message="`{event}.wait()` does not block the host: {consequence}",
    doc=__doc__,
)
