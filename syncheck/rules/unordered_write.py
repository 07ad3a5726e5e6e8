"""Two streams write the same bytes, and nothing orders the two writes.

## Why it matters
Which write comes last is up to chance, so the bytes may come from either stream, or be a mix of both.

## Fix
Make the later writer wait for the earlier one: `later.wait_stream(earlier)`, or an event recorded after the
first write. Or give each stream its own memory and combine the parts after a wait. A copy between two devices
waits for the current streams of both devices, but not for any other stream that uses its destination.

## Source
CUDA C++ Programming Guide, section "Streams"; PyTorch notes, "CUDA semantics", section "CUDA streams";
aten/src/ATen/native/cuda/Copy.cu, `copy_device_to_device`.
Seen in <https://github.com/pytorch/pytorch/issues/27024>.
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN103",
    name="unordered-write",
    severity=Severity.ERROR,
    message="{writer} writes {tensor} while {earlier} may still be writing it",
    doc=__doc__,
)
