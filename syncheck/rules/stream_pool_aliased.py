"""Two streams of the program are one CUDA stream: more are alive than torch's pool has.

## Why it matters
`torch.cuda.Stream()` hands out the 32 streams that a device has for each priority, in turn. The 33rd object is
the first stream again: what is put on both runs one after the other, cannot overlap, and is in order without any
wait, which hides a missing one until the number of streams changes.

## Fix
Make fewer streams, once, and keep them: two or three are enough for copies and compute. A library that makes
one for each layer or request should take them from a pool of its own.

## Source
c10/cuda/CUDAStream.cpp, `kStreamsPerPool`, and "Stream pool note" in CUDAStream.h.
Seen in <https://github.com/pytorch/pytorch/issues/34878> (inferences on more than 32 streams).
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN808",
    name="stream-pool-aliased",
    severity=Severity.ADVICE,
    message="{stream} is handed out again although the earlier object is alive: both are one CUDA stream",
    doc=__doc__,
)
