"""elapsed_time() is called on an event that was created without enable_timing=True.

## Why it matters
A PyTorch event stores no time by default. The call raises "Both events must be created with argument
'enable_timing=True'", and only at the end, when the work to be timed is already done.

## Fix
Create both events with `torch.cuda.Event(enable_timing=True)`. Events that only order streams do not need it.

## Source
torch 2.13, c10/cuda/CUDAEvent.h, `elapsed_time`; `torch.cuda.Event`.
Seen in <https://github.com/meta-pytorch/torchcomms/pull/2270>.
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN403",
    name="event-without-timing",
    severity=Severity.ERROR,
    message="elapsed_time() on {event}, which was created without enable_timing=True",
    doc=__doc__,
)
