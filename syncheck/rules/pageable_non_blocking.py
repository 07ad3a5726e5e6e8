"""A non_blocking copy from pageable host memory overlaps nothing.

## Why it matters
Only pinned memory can be copied while the host continues. The driver first stages pageable memory into pinned
memory, which may wait for all work queued on the stream, and the host waits with it. The result is correct,
but the flag promises an overlap that does not happen.

## Fix
Pin the memory once and reuse it: `torch.empty(..., pin_memory=True)`, or `DataLoader(..., pin_memory=True)`.
Create small values directly on the GPU: `torch.full(..., device="cuda")`. Pinning again for every copy
usually costs more than it saves.

## Source
CUDA Runtime API, "API synchronization behavior"; PyTorch notes, "CUDA semantics", section "Use pinned memory
buffers".
Seen in <https://github.com/vllm-project/vllm/pull/53491> and
<https://github.com/pytorch/pytorch/issues/39694>.
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN303",
    name="pageable-non-blocking",
    severity=Severity.ADVICE,
    message="non_blocking=True overlaps nothing here: {tensor} is in pageable memory",
    doc=__doc__,
)
