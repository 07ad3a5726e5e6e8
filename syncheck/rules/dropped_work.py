"""The handle of an asynchronous collective is thrown away or never waited for.

## Why it matters
The handle is what the program waits with. Without a wait nothing orders the use of the result, or the next
write to the buffers, after the collective. A loop that keeps its handles in one variable waits for the last
one only. On a single communicator this may go unnoticed, because its collectives run one after the other;
with several groups it does not.

## Fix
Keep every handle and wait for all: `for work in works: work.wait()`. Or leave `async_op=True` out.
Synchronizing the device before the first use of the result is a wait too. Under a coalescing manager, the
manager is waited for.

## Source
PyTorch, `torch.distributed`, section "Synchronous and asynchronous collective operations".
Seen in <https://github.com/vllm-project/vllm-ascend/pull/12811> and
<https://github.com/deepspeedai/DeepSpeed/pull/8539>.
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN603",
    name="dropped-work",
    severity=Severity.ERROR,
    message="the work of {collective} is never waited for",
    doc=__doc__,
)
