"""Work on a stream is not ordered against other streams, or on one side only, whatever path is taken.

## Why it matters
A stream that never waits starts its copies while other streams may still write what they read, or use the memory
that they fill. A stream that nothing waits for leaves results behind that may not be there when they are used. One
of the two waits alone is not enough. This rule looks at a class as a whole, where no single path shows both ends,
and at single functions, also if a caller has made the stream: one that lets it wait before a block of work, and
waits for it nowhere, or the other way round. An event that a function makes and records, and that nothing waits
for, is a wait that was forgotten.

## Fix
Around the work: `side.wait_stream(torch.cuda.current_stream())` before the block, and after it, or where the
results are used, `torch.cuda.current_stream().wait_stream(side)`.

## Source
PyTorch notes, "CUDA semantics", section "CUDA streams".
Seen in <https://github.com/huggingface/transformers> (version 4.56.2, `cache_utils.py`: the prefetch stream of an
offloaded cache did not wait, until version 5 added the second wait) and in <https://github.com/facebookresearch/fairscale>
(`experimental/nn/offload.py`: nothing waits for the streams that load and drop a shard). In
<https://github.com/feifeibear/long-context-attention> (`async_attn_layer.py`) a collective on such a stream sends what
the caller's stream may still compute, in <https://github.com/snap-stanford/deepsnap> (`hetero_gnn.py`) layers use it.
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN105",
    name="unordered-side-stream",
    severity=Severity.WARNING,
    message="{flaw}",
    doc=__doc__,
)
