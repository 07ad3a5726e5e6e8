"""The program synchronizes one device and then relies on the work of another.

## Why it matters
`torch.cuda.synchronize()` waits for all streams of one device: the current device if none is given. `.item()`
and `.cpu()` wait for one stream of the tensor's device. Work on any other device may still be running: a time
measured then is too short, and the host may read memory that is still being written.

## Fix
Name the device that does the work, `torch.cuda.synchronize(x.device)`, or synchronize the stream or an event
of the work.

## Source
`torch.cuda.synchronize`.
Seen in <https://github.com/meta-pytorch/gpt-fast/pull/113> and
<https://github.com/pytorch/benchmark/commit/1594d157c025f71423de863ed565b30e66c20235>.
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN502",
    name="wrong-device-sync",
    severity=Severity.ERROR,
    message="this synchronizes {synchronized}, but {consequence}",
    doc=__doc__,
)
