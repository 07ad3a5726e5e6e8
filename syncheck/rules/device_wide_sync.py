"""torch.cuda.synchronize() waits for a whole device where one stream or event would do.

## Why it matters
The host waits for every stream of the device, also for copies and communication that it does not need, and
cannot launch ahead meanwhile. Often the call is left over from debugging, or stands where a `wait_stream` is
missing, and later it is unclear what it protects.

## Fix
If one stream needs the work of another: `consumer.wait_stream(producer)`, which never blocks the host. If the
host needs a result: `event.synchronize()` on an event recorded after the work. If nothing needs it, remove it.
What it gains depends on the program: measure.

## Source
`torch.cuda.synchronize`; CUDA C++ Programming Guide, section "Explicit Synchronization".
Seen in <https://github.com/NVIDIA/Megatron-LM/pull/7076> and
<https://github.com/HuguesTHOMAS/KPConv-PyTorch/issues/22>.
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN806",
    name="device-wide-sync",
    severity=Severity.ADVICE,
    message="torch.cuda.synchronize() waits for the whole device where {alternative} would do",
    doc=__doc__,
    words=(("elapsed_time", "synchronize()"),),
)
