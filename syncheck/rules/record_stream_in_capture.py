"""`record_stream` inside a CUDA graph capture prevents memory from being reused.

## Why it matters
While a graph is being captured, the allocator cannot tell when a stream is done with a block that was
recorded for it. The block is not reused until the capture ends, and each such temporary takes its own memory:
16 temporaries of 64 MiB take 1 GiB.

## Fix
Omit `record_stream` inside the capture, and join the streams before the tensor is freed, which a capture
requires anyway: `torch.cuda.current_stream().wait_stream(side)`.

## Source
torch 2.13, c10/cuda/CUDACachingAllocator.cpp, `free` (during a capture, freeing a block with uses on other
streams is deferred).
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN203",
    name="record-stream-in-capture",
    severity=Severity.ADVICE,
    message="{tensor} is recorded for {stream} inside a capture: its memory is not reused before the capture ends",
    doc=__doc__,
)
