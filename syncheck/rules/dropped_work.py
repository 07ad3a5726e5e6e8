"""The handle of an asynchronous collective is discarded or never waited for.

## Why it matters
The handle is the only way to wait for the collective. Without a wait, nothing orders the use of the result,
or the next write to the buffers, after the collective. A loop that keeps its handles in one variable waits
only for the last one. On a single communicator this may go unnoticed, because its collectives run one after
the other; with several groups they run concurrently.

## Fix
Keep every handle and wait for all of them: `for work in works: work.wait()`. Or omit `async_op=True`.
Synchronizing the device before the first use of the result also works. Under a coalescing manager, wait for
the manager.

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
