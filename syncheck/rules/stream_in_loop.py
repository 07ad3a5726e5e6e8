"""A stream or a timing event is created on every iteration of a loop.

## Why it matters
PyTorch has a pool of 32 streams for each device and priority and hands them out round-robin, so the 33rd is
the first one again, and work on two stream objects may be work on one stream. The allocator keeps free memory
per allocating stream, so the memory of a stream that is no longer used is unavailable to the others. The
driver creates and destroys an event each time.

## Fix
Create it once, before the loop or in `__init__`, and reuse it on every iteration.

## Source
torch 2.13, c10/cuda/CUDAStream.h, "Stream pool note"; `torch.Tensor.record_stream` (memory is reused on the
stream of its creation).
Seen in <https://github.com/huggingface/pytorch-image-models/pull/2784>.
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN805",
    name="stream-in-loop",
    severity=Severity.ADVICE,
    message="a new {thing} is created on every iteration of a loop",
    doc=__doc__,
)
