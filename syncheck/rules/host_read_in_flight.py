"""The host reads memory that an asynchronous copy may still be writing.

## Why it matters
A copy from the GPU into pinned memory with `non_blocking=True` returns before the data has arrived, so the
host may read stale bytes or zeros. `x.to("cpu", non_blocking=True)` allocates pinned memory implicitly and is
asynchronous too. `Event.wait()` and `Stream.wait_stream()` do not help: they order streams and never block
the host.

`.numpy()`, `np.asarray()` and DLPack are escapes: they expose the memory without reading it. While the copy
is in flight, they are reported as warnings; the first element access that syncheck observes makes the finding
an error.

## Fix
Omit `non_blocking=True`. Or record an event after the copy, `event =
torch.cuda.current_stream().record_event()`, and make the host wait before it reads: `event.synchronize()`. A
later blocking copy on the same stream is also enough.

## Source
PyTorch tutorial "A guide on good usage of non_blocking and pin_memory() in PyTorch"; CUDA Runtime API, "API
synchronization behavior"; aten/src/ATen/native/TensorConversions.cpp, `_to_copy` (the pinned result).
Seen in <https://github.com/sgl-project/sglang/pull/16493> and <https://github.com/PTB-MR/mrpro/issues/984>.
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN301",
    name="host-read-in-flight",
    severity=Severity.ERROR,
    message="the host reads {tensor} while {stream} may still be writing it",
    doc=__doc__,
)
