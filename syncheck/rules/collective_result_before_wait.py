"""The result of an asynchronous collective is used before its work is waited for on the using stream.

## Why it matters
With `async_op=True` the collective runs on a stream of its own, and only `work.wait()` orders anything after
it. A use before that may see bytes that have not arrived. With NCCL `work.wait()` does not block the host: it
orders the stream that is current at the call, so a use on another stream is still unordered.

## Fix
Call `work.wait()` before the use, under the stream that uses the result, once for each handle. Further
streams then wait for that stream: `other.wait_stream(torch.cuda.current_stream())`. A functional collective
returns its result in place of a handle: pass that to `torch.ops._c10d_functional.wait_tensor`.

## Source
PyTorch, `torch.distributed`, section "Synchronous and asynchronous collective operations".
Seen in <https://github.com/pytorch/pytorch/issues/68866> and
<https://github.com/pytorch/pytorch/issues/162749>.
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN601",
    name="collective-result-before-wait",
    severity=Severity.ERROR,
    message="the result of {collective} is used before its work is waited for",
    doc=__doc__,
)
