"""elapsed_time() is called on an event that was made without enable_timing=True.

## Why it matters
An event of PyTorch carries no time unless it is asked to. The call raises "Both events must be created with
argument 'enable_timing=True'", and it does so at the end, when the work to be timed is done.

## Fix
Make both events with `torch.cuda.Event(enable_timing=True)`. Events that only order streams do without it.

## Source
torch 2.13, c10/cuda/CUDAEvent.h, `elapsed_time`; `torch.cuda.Event`.
Seen in <https://github.com/meta-pytorch/torchcomms/pull/2270>.
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN403",
    name="event-without-timing",
    severity=Severity.ERROR,
    message="elapsed_time() on {event}, which was made without enable_timing=True",
    doc=__doc__,
)
