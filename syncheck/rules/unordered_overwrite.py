"""A stream overwrites bytes that another stream may still be reading.

## Why it matters
The reader may get the new bytes, or a mix of old and new. This is typical of a buffer that is refilled on
every iteration of a loop: the reader waits for the writer, but the wait in the other direction, from the read
to the next write, is missing.

## Fix
Make the writing stream wait after the read is launched and before it writes: `writer.wait_stream(reader)`, or
record an event after the read and make the writer wait for it. Where that costs the overlap, alternate
between two buffers, each with its own event.

## Source
CUDA C++ Programming Guide, section "Streams"; PyTorch notes, "CUDA semantics", section "CUDA streams".
Seen in <https://github.com/deepspeedai/DeepSpeed/issues/5545> and
<https://github.com/sgl-project/sglang/pull/26380>.
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN102",
    name="unordered-overwrite",
    severity=Severity.ERROR,
    message="{writer} overwrites {tensor} while {reader} may still be reading it",
    doc=__doc__,
)
