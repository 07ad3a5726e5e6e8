"""Two stream objects share one CUDA stream, because more are alive than torch's pool holds.

## Why it matters
`torch.cuda.Stream()` hands out the 32 streams of a device and priority round-robin. The 33rd object is the
first stream again: work on the two objects runs one after the other and cannot overlap. It is also ordered
without any wait, which hides a missing wait until the number of streams changes.

## Fix
Create fewer streams, once, and keep them: two or three are enough for copies and compute. A library that
creates one for each layer or request should use its own pool.

## Source
c10/cuda/CUDAStream.cpp, `kStreamsPerPool`, and "Stream pool note" in CUDAStream.h.
Seen in <https://github.com/pytorch/pytorch/issues/34878> (inferences on more than 32 streams).
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN808",
    name="stream-pool-aliased",
    severity=Severity.ADVICE,
    message="{stream} is handed out again while the earlier object is alive: both are the same CUDA stream",
    doc=__doc__,
)
