"""An event is recorded again before anything has waited for its earlier record, which is lost.

## Why it matters
An event holds one record. Each `record()` replaces the previous one, and a later wait covers only the newest;
earlier waits are not affected. If one event is recorded on several streams and then waited for once, the wait
covers only the last stream, and the work on the others stays unordered.

## Fix
Use one event for each record that is waited for, for example one per stream, or wait between the two
records.

## Source
CUDA Runtime API, `cudaEventRecord` (a call overwrites the previously captured state).
Seen in <https://github.com/torch/cutorch/pull/222>.
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN405",
    name="lost-event-record",
    severity=Severity.WARNING,
    message="{event} is recorded again before anything waits for its record on {stream}: {consequence}",
    doc=__doc__,
)
