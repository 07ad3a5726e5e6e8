"""JSON report, schema version 1."""

import json
from dataclasses import asdict

from syncheck.findings import Finding, Location, Report
from syncheck.report.fixes import numbers
from syncheck.serialization import of_fix, of_proof

SCHEMA_VERSION = 1


def render_json(report: Report, *, version: str) -> str:
    """Return the report as JSON.

    The output is pure ASCII, so that text that cannot be encoded (a path with undecodable bytes) survives.

    Args:
        report: the report; its order is kept.
        version: the version of syncheck.
    """
    document = {
        "version": SCHEMA_VERSION,
        "tool": {"name": "syncheck", "version": version},
        "incomplete": list(report.incomplete),
        "notes": list(report.notes),
        "summary": {name: value for name, value in asdict(report.summary).items() if name != "used"},
        "hidden": report.hidden,
        "known": report.known,
        "fixes": dict(zip(("fixed", "fixable", "fixable_unsafe"), numbers(report), strict=True)),
        "findings": [_finding(finding) for finding in report.findings],
    }
    return json.dumps(document, indent=2, ensure_ascii=True) + "\n"


def _finding(finding: Finding) -> dict[str, object]:
    return {
        "rule": finding.rule.code,
        "name": finding.rule.name,
        "level": finding.level.value,
        "half": finding.source,
        **_position(finding.location),
        "message": finding.message,
        "help": finding.help,
        "fix": None if finding.fix is None else of_fix(finding.fix),
        **({"proof": of_proof(finding.proof)} if finding.proof is not None else {}),
        "assumptions": list(finding.assumptions),
        "count": finding.count,
        "rank": finding.rank,
        "ranks": list(finding.ranks),
        "fingerprint": finding.fingerprint,
        "package": finding.package,
        **_stack(finding.location),
        "related": [_related(location) for location in finding.related],
    }


def _related(location: Location) -> dict[str, object]:
    return {**_position(location), "message": location.message, **_stack(location)}


def _position(location: Location) -> dict[str, object]:
    frame = location.frame
    return {
        "path": frame.path,
        "line": frame.line,
        "column": frame.column,
        "end_line": frame.end_line,
        "end_column": frame.end_column,
        "function": frame.function,
    }


def _stack(location: Location) -> dict[str, object]:
    """Return an entry with the stack, innermost frame first; no entry if it is unknown."""
    frames = [{"path": frame.path, "line": frame.line, "function": frame.function} for frame in location.stack]
    return {"stack": frames} if frames else {}
