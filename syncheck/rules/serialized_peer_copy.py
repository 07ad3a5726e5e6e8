"""A copy between two GPUs runs on a stream that also carries compute, so the two cannot overlap.

## Why it matters
The copy runs on the current stream of the source device. Before it, that stream waits for the current stream
of the destination device; after it, the destination's current stream waits for the copy. If one of the two
carries compute, the copy waits for the compute launched before it, and the compute launched after it waits
for the copy. `non_blocking=True` only affects the host and does not change this.

## Fix
Copy with side streams current on both devices:
`with torch.cuda.stream(copy0), torch.cuda.stream(copy1): y = x.to("cuda:1", non_blocking=True)`. Before the
copy, make `copy0` wait for the stream that produced `x`; before `y` is used, make the using stream wait for
`copy1`.
Both tensors are then used on streams on which they were not allocated: see SYN201.

## Source
aten/src/ATen/native/cuda/Copy.cu, `copy_device_to_device` (the barrier in both directions).
Seen in <https://github.com/pytorch/pytorch/issues/15568>.
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN804",
    name="serialized-peer-copy",
    severity=Severity.ADVICE,
    message="this copy from {source} to {destination} cannot overlap: {stream} also carries compute",
    doc=__doc__,
)
