"""Findings that a comment of the program accepts: "stale host read, no sync". Errors there are warnings."""

import re
from collections.abc import Iterable, Iterator, Sequence

from syncheck.findings import Finding
from syncheck.rules.model import Severity

_ACCEPTING = re.compile(
    r"#.*\b(?:stale|racy|on purpose|intentional(?:ly)?|deliberate(?:ly)?|(?:no|without) (?:a |any )?(?:sync|wait)\w*"
    r"|(?:do not|don't|never) (?:sync|wait)\w*)\b",
    re.IGNORECASE,
)


def as_warnings(findings: Iterable[Finding], lines: Sequence[str]) -> Iterator[Finding]:
    """Yield the findings of a file, with errors that a comment accepts as warnings; `lines`: the file's lines."""
    for finding in findings:
        is_error = finding.level is Severity.ERROR
        yield finding.as_warning() if is_error and _is_accepted(finding.location.frame.line, lines) else finding


def _is_accepted(line: int, lines: Sequence[str]) -> bool:
    """Return whether the comment on a line, or the one directly above it, accepts missing synchronization."""
    above = lines[line - 2] if 1 < line <= len(lines) + 1 else ""
    around = [*lines[line - 1 : line], *([above] if above.lstrip().startswith("#") else [])]
    return any(_ACCEPTING.search(text) for text in around)
