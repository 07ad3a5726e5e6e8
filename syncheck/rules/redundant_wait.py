"""A wait adds no order that was not there already.

## Why it matters
Every wait costs a call and a place in the stream, and it hides which waits matter. Some are slips: a stream
that waits for its own event, or a wait called before the work that it was meant to cover was launched.

## Fix
Remove it. If it was meant to cover work that is launched later, move it behind that work.

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
