"""Memory is freed while another stream may still be using it, and the allocator can hand it out again.

## Why it matters
Memory belongs to the stream on which it was allocated. When the last reference is gone it goes back to that
stream's pool, and the next allocation there may receive it at once, in that stream's order only. Work of
another stream that still uses the old tensor then reads or overwrites the new one. A wait before the use does
not help: what is missing is the way back, from the use to the allocating stream. Whether one run goes wrong
depends on the state of the allocator, so a run with right numbers proves nothing.

## Fix
One of these is enough; they are equal cures:

- `x.record_stream(user)` before the last reference is gone. The memory is then not handed out before the work
  that `user` had at the moment of the free is complete.
- `owner.wait_stream(user)`, with `owner` the stream of the allocation, after the use and before the memory is
  handed out again; before or after the free.
- A host synchronization after the use and before the memory is handed out again, such as
  `user.synchronize()`.

Inside `with torch.cuda.stream(side)`, `x.record_stream(torch.cuda.current_stream())` names `side`. For a
tensor that was allocated in that block it does nothing; for a tensor that came from outside it is right.

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
