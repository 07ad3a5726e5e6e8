"""The host waits for the GPU on every iteration of a loop.

## Why it matters
`.item()`, `.cpu()`, `.tolist()`, `nonzero()`, indexing with a boolean mask and `if tensor:` need a value on
the host, so the host waits for the current stream of the tensor's device. It cannot launch ahead, and the GPU
idles between iterations.

## Fix
Keep the values on the GPU and read them once, after the loop or every few iterations. Use `torch.where`
instead of a mask, and a slice instead of a list as an index. Pass `non_blocking=True` to copies from pinned
memory. Or copy results with `non_blocking=True` and read the value one iteration later, after
`event.synchronize()`. The gain depends on the program: measure it.

## Source
PyTorch Performance Tuning Guide, section "Avoid unnecessary CPU-GPU synchronization".
Seen in <https://github.com/meta-pytorch/torchtune/pull/522> and
<https://github.com/deepspeedai/DeepSpeed/commit/1c9e5ef2d214b0dac0a66e17df20ef6d0c6092a9>.
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN801",
    name="host-sync-in-loop",
    severity=Severity.ADVICE,
    message="the host waits for the device on every iteration of a loop: {call}",
    doc=__doc__,
    words=tuple((".backward(", read) for read in (".item()", ".cpu()", ".tolist()")),
)
