"""torch.cuda.empty_cache() is called on every iteration of a loop.

## Why it matters
The call waits for the streams for which `record_stream()` still holds back freed memory, and returns all free
memory to the driver. The next iteration has to request it from the driver again. Both are slow and can stall
the GPU. It does not make more memory available to the program: the allocator reuses its free memory anyway.

## Fix
Remove it, and drop the references to tensors that are no longer needed. To reduce fragmentation, try
`PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`. Call it only where another process needs the memory.

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
    message="torch.cuda.empty_cache() on every iteration of a loop: the next iteration has to request the memory from "
    "the driver again, which waits for the device",
    doc=__doc__,
    words=(("empty_cache", ".backward("),),
)
