"""torch.cuda.synchronize() waits for a whole device where waiting for one stream or event is enough.

## Why it matters
The host waits for every stream of the device, including copies and communication whose results it does not
need, and cannot launch ahead in the meantime. The call is often left over from debugging, or stands in for a
missing `wait_stream`, and later it is unclear what it protects.

## Fix
If one stream needs the work of another, call `consumer.wait_stream(producer)`, which never blocks the host.
If the host needs a result, call `event.synchronize()` on an event recorded after the work. If nothing needs
it, remove it. The gain depends on the program: measure it.

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
    message="torch.cuda.synchronize() waits for the whole device where {alternative} is enough",
    doc=__doc__,
    words=(("elapsed_time", "synchronize()"),),
)
