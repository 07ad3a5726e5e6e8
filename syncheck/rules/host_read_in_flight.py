"""The host reads memory that an asynchronous copy may still be writing.

## Why it matters
A copy from the GPU into pinned memory with `non_blocking=True` returns before the bytes have arrived, so the
host may read old bytes or zeros. `x.to("cpu", non_blocking=True)` allocates pinned memory by itself and is
asynchronous too. `Event.wait()` and `Stream.wait_stream()` do not help: they order streams and never block
the host.

`.numpy()`, `np.asarray()` and DLPack are an escape: they hand the memory out and read nothing yet. While the
copy is in flight they are reported at level warning; the first access to an element that is seen makes it an
error.

## Fix
Leave `non_blocking=True` out. Or record an event after the copy,
`event = torch.cuda.current_stream().record_event()`, and let the host wait before it reads:
`event.synchronize()`. A later blocking copy on the same stream is enough too.

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
