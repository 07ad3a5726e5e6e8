"""The host modifies pinned memory that an asynchronous copy may still be reading or writing.

## Why it matters
A copy from pinned memory with `non_blocking=True` returns before the GPU has read the data. If the host then
refills the same buffer for its next iteration, the copy may send the new bytes or a mix of both. Freeing a
pinned tensor in flight is safe, because the host allocator keeps its memory until the copy is complete;
writing to it is not.

## Fix
Record an event after the copy and make the host wait before it writes: `event.synchronize()`. To keep the
overlap, alternate between two buffers, each with its own event, or use a new pinned tensor for every copy.

## Source
CUDA Runtime API, "API synchronization behavior"; aten/src/ATen/cuda/CachingHostAllocator.cpp.
Seen in <https://github.com/vllm-project/vllm/pull/25279>.
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN302",
    name="host-write-in-flight",
    severity=Severity.ERROR,
    message="the host modifies {tensor} while {stream} may still be {verb} it",
    doc=__doc__,
)
