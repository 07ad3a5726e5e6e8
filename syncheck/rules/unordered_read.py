"""A stream reads bytes that another stream wrote, and nothing orders the read after the write.

## Why it matters
Operations on one stream run in order; operations on different streams run in any order. The kernel may read
stale or half-written bytes. It happens only in some runs, and the numbers are silently wrong. Both ends of a
hand-over need a wait: a side stream that starts before its input is ready is as wrong as a result that is
used too early.

## Fix
Make the reading stream wait before it reads: `reader.wait_stream(writer)`, or record an event after the write
and make the reader wait for it. A wait covers only what was launched before it, so place it after the write
and before the read. Entering `with torch.cuda.stream(s)` orders nothing by itself.

## Source
CUDA C++ Programming Guide, section "Streams"; PyTorch notes, "CUDA semantics", section "CUDA streams".
Result used too early: <https://github.com/ROCm/pytorch/issues/3194>.
Input not ready: <https://github.com/pytorch/pytorch/pull/197562>.
Wait for the wrong stream:
<https://github.com/NVIDIA/Megatron-LM/commit/ae6707622e94c5083f72c87fd050b69a3a776618>.
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN101",
    name="unordered-read",
    severity=Severity.ERROR,
    message="{reader} reads {tensor} without waiting for {writer}, which wrote it",
    doc=__doc__,
)
