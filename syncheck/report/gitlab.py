"""GitLab code quality report.

Source:
    GitLab documentation, "Code Quality", section "Code Quality report format".
"""

import json

from syncheck.findings import Finding, Report
from syncheck.report.cells import in_files
from syncheck.report.style import sentence, visible
from syncheck.rules.model import Severity

_SEVERITIES = {Severity.ERROR: "critical", Severity.WARNING: "major", Severity.ADVICE: "info"}


def render(report: Report) -> str:
    """Return the report as JSON; each entry has a unique fingerprint."""
    seen: dict[str, int] = {}
    return json.dumps([_entry(finding, seen) for finding in in_files(report).findings], indent=2) + "\n"


def _entry(finding: Finding, seen: dict[str, int]) -> dict[str, object]:
    frame = finding.location.frame
    number = seen[finding.fingerprint] = seen.get(finding.fingerprint, 0) + 1
    return {
        "description": ". ".join(filter(None, (finding.message, sentence(finding.help), finding.proof_summary))),
        "check_name": f"{finding.rule.code} {finding.rule.name}",
        "fingerprint": finding.fingerprint + (f"-{number}" if number > 1 else ""),
        "severity": _SEVERITIES[finding.level],
        "location": {
            "path": visible(frame.path),
            "lines": {"begin": max(frame.line, 1), "end": max(frame.end_line, frame.line, 1)},
        },
    }
