"""Event.wait() makes a stream wait and never blocks the host, although the next host step needs it to.

## Why it matters
`event.wait()` returns at once, and so does `stream.wait_event(event)`. A host that then reads the result of
an asynchronous copy, calls `elapsed_time()` or reads a clock does so while the GPU is still working.
`torch.cuda.Event(blocking=True)` does not change that: it only decides how the host waits in `synchronize()`.

## Fix
Call `event.synchronize()`, which blocks the host until the recorded work is complete. Keep `event.wait()` for
ordering one stream after another.

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
    message="{event}.wait() does not block the host: {consequence}",
    doc=__doc__,
)
