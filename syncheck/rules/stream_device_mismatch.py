"""Work inside `with torch.cuda.stream(s)` runs on a different device from that of s.

## Why it matters
A stream belongs to one device, and the context makes it current for that device only. An operator runs on the
current stream of its tensors' device. The work therefore goes to the current stream of the other device: it
overlaps nothing, and waiting for `s` does not cover it.

## Fix
Create the stream on the device of the tensors: `torch.cuda.Stream(device=x.device)`. For work on several
devices, enter one stream for each: `with torch.cuda.stream(s0), torch.cuda.stream(s1):`.

## Source
`torch.cuda.StreamContext` ("Streams are per-device"); PyTorch notes, "CUDA semantics", section "CUDA
streams".
Seen in <https://github.com/pytorch/pytorch/issues/16019> and
<https://github.com/pytorch/pytorch/issues/15682>.
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN501",
    name="stream-device-mismatch",
    severity=Severity.WARNING,
    message="{operator} runs on {device}, so `with torch.cuda.stream()` of {stream} has no effect on it",
    doc=__doc__,
)
