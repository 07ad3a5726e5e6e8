"""Memory is freed while another stream may still be using it, and the allocator can reuse it.

## Why it matters
Memory belongs to the stream on which it was allocated. When the last reference is gone, it returns to that
stream's pool, and the next allocation there may receive it immediately, ordered only with that stream. Work
on another stream that still uses the old tensor then reads or overwrites the new one. A wait before the use
does not help: the missing wait is the one in the other direction, from the use back to the allocating stream.
Whether a particular run goes wrong depends on the state of the allocator, so a run with correct numbers
proves nothing.

## Fix
Any one of these is enough:

- `x.record_stream(user)` before the last reference is gone. The memory is then not reused until the work
  pending on `user` at the time of the free is complete.
- `owner.wait_stream(user)`, where `owner` is the stream of the allocation, after the use and before the
  memory is reused. It may come before or after the free.
- A host synchronization after the use and before the memory is reused, such as `user.synchronize()`.

Inside `with torch.cuda.stream(side)`, `x.record_stream(torch.cuda.current_stream())` names `side`. For a
tensor allocated in that block it does nothing; for a tensor from outside it is correct.

## Source
`torch.Tensor.record_stream`; c10/cuda/CUDACachingAllocator.cpp, `recordStream` and `free`.
Seen in <https://github.com/NVIDIA/apex/commit/d5e2bb4bdeedd27b1dfaf5bb2b24d6c000dee9be>,
<https://github.com/NVIDIA/TensorRT-LLM/pull/15265> and <https://github.com/pytorch/pytorch/pull/180665>.
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN201",
    name="missing-record-stream",
    severity=Severity.ERROR,
    message="{tensor} may be reused while {user} is still {verb} it",
    doc=__doc__,
)
