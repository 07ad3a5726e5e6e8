"""The host changes pinned memory that an asynchronous copy may still be reading or writing.

## Why it matters
A copy from pinned memory with `non_blocking=True` returns before the GPU has read the bytes. A host that
fills the same buffer for its next iteration may send the new bytes, or a mix. Freeing a pinned tensor in flight is
safe, because the host allocator keeps its memory until the copy is complete; writing to it is not.

## Fix
Record an event after the copy and let the host wait before it writes: `event.synchronize()`. To keep the
overlap, alternate between two buffers, each with its own event, or a fresh pinned tensor for every copy.

## Source
CUDA Runtime API, "API synchronization behavior"; aten/src/ATen/cuda/CachingHostAllocator.cpp.
Seen in <https://github.com/vllm-project/vllm/pull/25279>.
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN302",
    name="host-write-in-flight",
    severity=Severity.ERROR,
    message="the host changes {tensor} while {stream} may still be {verb} it",
    doc=__doc__,
)
