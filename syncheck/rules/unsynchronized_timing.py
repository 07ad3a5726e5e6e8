"""A host clock is read while the GPU is still running the work being timed.

## Why it matters
Launching an operator returns immediately. The difference between two clock readings is then the time of the
launches, not of the work, and the remaining work is attributed to whatever is timed next. `Event.wait()` does
not help, because it never blocks the host.

## Fix
Call `torch.cuda.synchronize(device)` before each of the two readings, naming the device that does the work.
Or time with two events created with `enable_timing=True`. Time many iterations together rather than each
operator, because a synchronization has its own cost. `torch.utils.benchmark.Timer` does all this.

The linter also reports the first reading if the host waits before the second one, but earlier work, such as a
warm-up, is still running at the first: it is measured, too.

A time that is only compared, such as a time limit, is not reported, nor is one whose name or message says that it
is the host's own (`launch_ms`, `data_time`), approximate, or that of a warm-up or a compilation.

## Source
PyTorch notes, "CUDA semantics", section "Asynchronous execution".
Seen in <https://github.com/pytorch/pytorch/pull/177765> and
<https://github.com/NVIDIA/DeepLearningExamples/commit/f613b7c0a8ff252dcbc8cc7747995334198844b3>.
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN701",
    name="unsynchronized-timing",
    severity=Severity.ERROR,
    message="this measures the launch, not the work: {stream} is still running",
    doc=__doc__,
)
