"""A call to record_stream() protects nothing that was not already safe.

## Why it matters
For the stream on which the memory was allocated, the call is ignored. For a stream that the allocating stream
waits for before the free, the memory is safe without it, and the call only keeps the memory from being reused
until the allocator finds that stream's work complete. The program needs more memory, and how much varies from
run to run. The call can also hide a real bug: `x.record_stream(torch.cuda.current_stream())` inside `with
torch.cuda.stream(side)` names `side`, and the outer stream, which was meant, stays unprotected (SYN201).

## Fix
Remove the call, or name the stream that actually uses the tensor: look up `torch.cuda.current_stream()`
before entering the block.

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
