"""A thread uses device 0 or a default stream, because threads do not inherit the current device and stream.

## Why it matters
The current device and the current stream are per thread. A new thread starts with device 0 and with the
default stream of every device, whatever was current in the thread that started it. Its work fills the memory
of the wrong GPU, or runs unordered with the intended stream.

## Fix
Pass the device and the stream to the thread and set them there: `torch.cuda.set_device(device)` and `with
torch.cuda.stream(stream):`. In a thread pool, do it in the `initializer` or in the task.

## Source
CUDA C++ Programming Guide, section "Device Selection"; torch 2.13, c10/cuda/CUDAStream.h, "Stream pool note".
Seen in <https://github.com/pfnet/pytorch-pfn-extras/pull/726> and
<https://github.com/meta-pytorch/torchrec/pull/1742>.
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN503",
    name="thread-loses-device",
    severity=Severity.WARNING,
    message=("this thread uses {actual}: {expected}, current in the thread that started it, does not carry over"),
    doc=__doc__,
)
