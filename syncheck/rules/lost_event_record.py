"""An event is recorded again before anyone waited for its earlier record, which is lost by that.

## Why it matters
An event holds one record. Each `record()` replaces the one before, and a later wait covers the newest only;
waits made before keep what they saw. One event recorded on several streams and then waited for once covers
the last stream, and the work of the others stays unordered.

## Fix
Use one event for each record that is waited for, for example one a stream, or wait between the two
records.

## Source
CUDA Runtime API, `cudaEventRecord` (a call overwrites the state captured before).
Seen in <https://github.com/torch/cutorch/pull/222>.
"""

from syncheck.rules.model import Rule, Severity

RULE = Rule(
    code="SYN405",
    name="lost-event-record",
    severity=Severity.WARNING,
    message="{event} is recorded again before anyone waited for its record on {stream}: {consequence}",
    doc=__doc__,
)
