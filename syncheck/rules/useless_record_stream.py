"""A call of record_stream() protects nothing that was not safe already.

## Why it matters
For the stream on which the memory was allocated the call is ignored. For a stream that the allocating stream
waits for before the free, the memory is safe without it, and the call keeps the memory out of use until the
allocator finds that stream's work complete: more memory is needed, and how much differs from run to run. It
can also hide a real bug: `x.record_stream(torch.cuda.current_stream())` inside `with torch.cuda.stream(side)`
names `side`, and the outer stream, which was meant, stays unprotected (SYN201).

## Fix
Remove the call, or name the stream that really uses the tensor: look `torch.cuda.current_stream()` up before
the block is entered.

## Source
`torch.Tensor.record_stream`; c10/cuda/CUDACachingAllocator.cpp, `recordStream` (uses on the allocating stream
are ignored).
Seen in <https://github.com/huggingface/diffusers/pull/12721>.
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN202",
    name="useless-record-stream",
    severity=Severity.ADVICE,
    message="record_stream() on {tensor} protects nothing: {reason}",
    doc=__doc__,
)
