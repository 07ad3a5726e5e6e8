"""A stream reads bytes that another stream wrote, and nothing orders the read after the write.

## Why it matters
The kernel may read old or half-written bytes. It happens on some runs only, and the numbers are silently wrong.

## Fix
Make the reading stream wait before it reads: `reader.wait_stream(writer)`, or record an event after the write and
let the reader wait for it. Entering `with torch.cuda.stream(s)` orders nothing by itself.

## Source
CUDA C++ Programming Guide, section "Streams"; PyTorch notes, "CUDA semantics", section "CUDA streams".
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN101",
    name="unordered-read",
    severity=Severity.ERROR,
    message="{reader} reads {tensor} without waiting for {writer}, which wrote it",
    doc=__doc__,
)
