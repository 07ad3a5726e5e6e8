"""Memory allocated on one stream is first used on another that has not waited for the allocating stream.

## Why it matters
The allocator reuses freed memory in the order of the allocating stream: work launched there earlier may still
be using the previous tensor at the same address. Another stream that does not wait can overwrite bytes that
are still being read, or have its own bytes overwritten. This applies even to `torch.empty`, whose contents
are never read.

## Fix
Make the using stream wait after the allocation and before its first use: `user.wait_stream(owner)`, where
`owner` is the stream of the allocation. Or allocate under the stream that uses the memory first: `with
torch.cuda.stream(user): x = torch.empty(...)`. `record_stream()` does not help: it delays the next reuse of
the memory and does nothing about the previous one.

## Source
PyTorch notes, "CUDA semantics", section "CUDA streams" (the example marked "STILL REQUIRED").
Seen in <https://github.com/ROCm/ATOM/pull/1956>.
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN104",
    name="unordered-first-use",
    severity=Severity.ERROR,
    message="{stream} uses {tensor} before waiting for {allocator}, on which its memory was allocated",
    doc=__doc__,
)
