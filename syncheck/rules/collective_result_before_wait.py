"""The result of an asynchronous collective is used on a stream that has not waited for the collective.

## Why it matters
With `async_op=True` the collective runs on its own stream, and only `work.wait()` orders anything after it.
An earlier use may see data that has not arrived. With NCCL, `work.wait()` does not block the host: it orders
the stream that is current at the call, so a use on another stream is still unordered.

## Fix
Call `work.wait()` before the use, with the using stream as the current stream, once per handle. Make any
further streams wait for that stream: `other.wait_stream(torch.cuda.current_stream())`. A functional
collective returns its result instead of a handle: pass the result to
`torch.ops._c10d_functional.wait_tensor`.

The operations of one `batch_isend_irecv` run at the same time: one that sends from the buffer that another
one receives into may send the old contents. Receive in a batch of its own, and wait for it first.

## Source
PyTorch, `torch.distributed`, section "Synchronous and asynchronous collective operations".
Seen in <https://github.com/pytorch/pytorch/issues/68866> and
<https://github.com/pytorch/pytorch/issues/162749>.
NCCL user guide, "Point-to-point communication": calls within a group "can be seen as progressing independently".
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN601",
    name="collective-result-before-wait",
    severity=Severity.ERROR,
    message="the result of {collective} is used before its `wait()`",
    doc=__doc__,
)
