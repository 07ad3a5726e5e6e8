"""Comments that silence findings: `# syncheck: ignore[SYN101] reason`, and `ignore-file` for a whole file."""

import io
import re
import tokenize
from dataclasses import dataclass

from syncheck.findings import Finding

_COMMENT = re.compile(
    r"#\s*syncheck:\s*(?P<kind>ignore-file|ignore)\b(?:\[(?P<codes>[^\]]*)\])?(?P<reason>[^#]*)", re.IGNORECASE
)
_MARK = "syncheck:"


@dataclass(slots=True)
class Suppression:
    """One comment.

    Attributes:
        line: where it stands, from 1.
        codes: codes, prefixes or names that it silences, in upper case; empty for all.
        is_file: it is for the whole file.
        is_used: it has silenced something.
    """

    line: int
    codes: tuple[str, ...]
    is_file: bool
    is_used: bool = False

    def covers(self, finding: Finding) -> bool:
        """Tell whether it silences a finding."""
        frame = finding.place.frame
        if not self.is_file and not frame.line <= self.line <= max(frame.line, frame.end_line):
            return False
        rule = finding.rule
        return not self.codes or any(rule.code.startswith(code) or rule.name.upper() == code for code in self.codes)


def read(source: str) -> list[Suppression]:
    """Return the suppressions in a file's text; none where it cannot be read as Python."""
    if _MARK not in source.lower():
        return []
    found: list[Suppression] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                found += _parsed(token.string, token.start[0])
    except (tokenize.TokenError, SyntaxError):
        return found
    return found


def _parsed(comment: str, line: int) -> list[Suppression]:
    return [
        Suppression(
            line,
            tuple(code.strip().upper() for code in (match["codes"] or "").split(",") if code.strip()),
            match["kind"].lower() == "ignore-file",
        )
        for match in _COMMENT.finditer(comment)
    ]


def apply(findings: tuple[Finding, ...], suppressions: list[Suppression]) -> tuple[Finding, ...]:
    """Return the findings that no comment silences; mark the comments that do."""
    kept: list[Finding] = []
    for finding in findings:
        covering = [suppression for suppression in suppressions if suppression.covers(finding)]
        for suppression in covering:
            suppression.is_used = True
        if not covering:
            kept.append(finding)
    return tuple(kept)
