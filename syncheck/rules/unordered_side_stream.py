"""On every path, work on a stream is ordered with other streams on one side only, or not at all.

## Why it matters
A stream that never waits starts its copies while other streams may still be writing their sources, or using
the memory that they fill. A stream that nothing waits for produces results that may not be ready when they
are used. One of the two waits alone is not enough.

This rule analyzes a class as a whole, where no single path shows both ends, and single functions, even if the
caller created the stream: a function that makes the stream wait before a block of work but waits for it
nowhere, or the other way round. If a function creates and records an event and nothing waits for it, a wait
was forgotten. It also reports batches that a thread loads on its own stream and passes on through a queue, if
nothing waits for that stream; copies in flight that a cache drops while another stream reads them; a stream
that overwrites a buffer of an object and never waits for its readers; and a stream that waits for an event of
the previous call, because a method that is called later records it, although the buffer is used again in this
call.

## Fix
Call `side.wait_stream(torch.cuda.current_stream())` before the block, and
`torch.cuda.current_stream().wait_stream(side)` after it or where the results are used.

## Source
PyTorch notes, "CUDA semantics", section "CUDA streams".
Seen in <https://github.com/huggingface/transformers> (version 4.56.2, `cache_utils.py`: the prefetch stream
of an offloaded cache did not wait, until version 5 added the second wait) and in
<https://github.com/facebookresearch/fairscale> (`experimental/nn/offload.py`: nothing waits for the streams
that load and drop a shard). In <https://github.com/feifeibear/long-context-attention>
(`async_attn_layer.py`), a collective on such a stream sends data that the caller's stream may still be
computing; in <https://github.com/snap-stanford/deepsnap> (`hetero_gnn.py`), layers use such data.
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN105",
    name="unordered-side-stream",
    severity=Severity.WARNING,
    message="{flaw}",
    doc=__doc__,
)
