"""A wait adds no ordering that does not already exist.

## Why it matters
Every wait costs a call and a slot in the stream, and obscures which waits matter. Some are mistakes: a stream
waits for its own event, or the wait comes before the launch of the work that it was meant to cover.

## Fix
Remove it. If it was meant to cover work that is launched later, move it after that work.

## Source
CUDA Runtime API, `cudaStreamWaitEvent`; `torch.cuda.Stream.wait_stream` (it covers what was submitted to the
other stream at the time of the call).
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN802",
    name="redundant-wait",
    severity=Severity.ADVICE,
    message="redundant wait: {reason}",
    doc=__doc__,
)
