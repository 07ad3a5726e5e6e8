"""`record_stream` inside the capture of a CUDA graph keeps memory from being used again.

## Why it matters
While a graph is captured, the allocator cannot know when a stream is done with a block that was recorded for it. The
block stays out of the graph's pool to the end of the capture, and each such temporary takes memory of its own: 16 of
64 MiB keep 1 GiB.

## Fix
Leave `record_stream` out there, and join the streams before the tensor is freed, which a capture needs anyway:
`torch.cuda.current_stream().wait_stream(side)`.

## Source
torch 2.13, c10/cuda/CUDACachingAllocator.cpp, `free` (a block with uses on other streams is put off during a capture).
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN203",
    name="record-stream-in-capture",
    severity=Severity.ADVICE,
    message="{tensor} is recorded for {stream} inside a capture: its memory is not used again before the capture ends",
    doc=__doc__,
)
