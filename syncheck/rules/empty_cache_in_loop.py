"""torch.cuda.empty_cache() is called on every iteration of a loop.

## Why it matters
The call waits for the streams for which `record_stream()` still holds freed memory back, and returns all free
memory to the driver; the next iteration has to ask the driver for it again. Both are slow and can stall the GPU.
The program gets no more memory by it: the allocator uses its free memory again by itself.

## Fix
Remove it, and drop the references to tensors that are no longer needed. Against fragmentation try
`PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`. Call it where another process needs the memory.

## Source
PyTorch notes, "CUDA semantics", section "Memory management"; c10/cuda/CUDACachingAllocator.cpp,
`release_cached_blocks`.
Seen in <https://github.com/huggingface/transformers/pull/31530>.
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN807",
    name="empty-cache-in-loop",
    severity=Severity.ADVICE,
    message="torch.cuda.empty_cache() on every iteration of a loop: what it gives back is asked of the driver again in "
    "the next one, which waits for the device",
    doc=__doc__,
    words=(("empty_cache", ".backward("),),
)
