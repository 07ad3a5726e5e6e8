"""An ordering call names a stream that was looked up earlier or elsewhere and is not the one doing the work.

## Why it matters
`torch.cuda.current_stream()` returns the stream that is current at that moment in the calling thread. A
stream kept from `__init__`, from a default argument or from a `partial`, or looked up inside another stream's
block, may not be the current one where the work is launched. `default_stream()` is correct only if the work
happens to run there. The wait then orders unrelated streams, and the work stays unordered.

## Fix
Look up the stream where the work is launched: `side.wait_stream(torch.cuda.current_stream())`. If the outer
stream is meant, look it up before entering `with torch.cuda.stream(side)`. In hooks of the backward pass, use
`current_stream()` too: a hook runs on the stream of its node, which is usually that of the forward operator.

## Source
`torch.cuda.current_stream`; PyTorch notes, "CUDA semantics", section "Stream semantics of backward passes".
Seen in <https://github.com/deepspeedai/DeepSpeed/commit/be60451f6a2946c833d5ca984e080a00511e7e12> and
<https://github.com/NVIDIA/cudnn-frontend/pull/483>.
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN406",
    name="stale-stream-handle",
    severity=Severity.WARNING,
    message="this call names {named}, but the work is on {actual}: {consequence}",
    doc=__doc__,
)
