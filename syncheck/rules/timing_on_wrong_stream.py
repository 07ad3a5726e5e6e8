"""A timing event is recorded on a stream that is not ordered after the work it is meant to time.

## Why it matters
An event's time is the moment at which its own stream reaches it. `record()` without a stream uses the current
stream; if the work runs on a side stream or on a communication stream, the event does not wait for it.
Synchronizing afterwards does not help: the time has already been taken.

## Fix
Record both events on the stream that does the work: `start.record(s)` and `end.record(s)`. Or make the
recording stream wait for the work before the second record.

## Source
CUDA C++ Programming Guide, section "Events"; `torch.cuda.Event.record`.
Seen in <https://github.com/NVIDIA/TensorRT-LLM/pull/6906>.
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN702",
    name="timing-on-wrong-stream",
    severity=Severity.WARNING,
    message="this timing event is recorded on {stream}, but the work to be timed ran on {worker}",
    doc=__doc__,
)
