"""SARIF report, version 2.1.0.

Source:
    OASIS SARIF 2.1.0; GitHub documentation, "SARIF support for code scanning".
"""

import json
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING
from urllib.parse import quote

from syncheck.findings import Applicability, Finding, Fix, Frame, Location, Report
from syncheck.paths import real_path
from syncheck.report.cells import in_files
from syncheck.report.style import sentence
from syncheck.rules.model import Rule, Severity
from syncheck.serialization import of_proof

if TYPE_CHECKING:
    from syncheck.lint.fixes.replacements import Replacement

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_SURE = 100.0
"""The highest rank of the format, for linter findings without assumptions."""
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.ADVICE: "note"}


def render(report: Report, *, version: str) -> str:
    """Return the report as JSON; paths inside the working directory are relative to it."""
    rules = list({finding.rule.code: finding.rule for finding in report.findings}.values())
    index = {rule.code: number for number, rule in enumerate(rules)}
    notifications = [{"level": "warning", "message": {"text": reason}} for reason in report.incomplete]
    run = {
        "tool": {"driver": {"name": "syncheck", "version": version, "rules": [_rule(rule) for rule in rules]}},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": not report.incomplete, "toolExecutionNotifications": notifications}],
        "results": [_result(finding, index) for finding in in_files(report).findings],
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(rule: Rule) -> dict[str, object]:
    return {
        "id": rule.code,
        "name": "".join(part.capitalize() for part in rule.name.split("-")),
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.section("Why it matters") or rule.summary},
        "help": {"text": rule.section("Fix") or rule.summary, "markdown": rule.doc.strip()},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": {"tags": ["concurrency", "gpu"], "problem.severity": _problem(rule.severity)},
    }


def _problem(severity: Severity) -> str:
    return "recommendation" if severity is Severity.ADVICE else severity.value


def _result(finding: Finding, index: dict[str, int]) -> dict[str, object]:
    text = ". ".join(filter(None, (finding.message, sentence(finding.help))))
    related = [
        {**_location(location), "id": number, "message": {"text": location.message}}
        for number, location in enumerate(finding.related, 1)
    ]
    result: dict[str, object] = {
        "ruleId": finding.rule.code,
        "ruleIndex": index[finding.rule.code],
        "level": _LEVELS[finding.level],
        "message": {"text": text},
        "locations": [_location(finding.location)],
        "relatedLocations": related,
        "partialFingerprints": {"syncheck/v1": finding.fingerprint},
        "occurrenceCount": finding.count,
    }
    if finding.source == "lint":
        result["rank"] = round(_SURE / (1 + len(finding.assumptions)), 1)
        result["properties"] = {"assumptions": list(finding.assumptions)}
    if finding.related:
        steps = [*reversed(finding.related), finding.location]
        flow = [
            {"location": {**_location(location), "message": {"text": location.message or finding.message}}}
            for location in steps
        ]
        result["codeFlows"] = [{"threadFlows": [{"locations": flow}]}]
    if finding.proof is not None:
        result["properties"] = {"proof": of_proof(finding.proof)}
        result["message"] = {"text": f"{text}. {finding.proof.summary}"}
    changes = _changes(finding.fix) if finding.fix is not None else []
    if changes:
        result["fixes"] = [{"description": {"text": finding.help}, "artifactChanges": changes}]
    return result


def _changes(fix: Fix) -> list[dict[str, object]]:
    """Return the exact file changes of a fix, as the format requires; empty if one of them cannot be made."""
    from syncheck.lint.fixes.replacements import replacements  # noqa: PLC0415  libcst, only where there is a fix

    if fix.applicability is Applicability.EXAMPLE:
        return []
    changes: list[dict[str, object]] = []
    for path in dict.fromkeys(edit.path for edit in fix.edits):
        try:
            source = Path(real_path(path)).read_bytes().decode("utf-8")
        except (OSError, ValueError):
            return []
        parts = replacements(source, [edit for edit in fix.edits if edit.path == path])
        if not parts:
            return []
        replaced = [{"deletedRegion": _lines(part), "insertedContent": {"text": part.text}} for part in parts]
        changes.append({"artifactLocation": _artifact(Frame(path, 0)), "replacements": replaced})
    return changes


def _lines(part: "Replacement") -> dict[str, int]:
    return {"startLine": part.first, "startColumn": 1, "endLine": part.last, "endColumn": 1}


def _location(location: Location) -> dict[str, object]:
    frame = location.frame
    region: dict[str, object] = {"startLine": max(frame.line, 1)}
    if frame.column:
        region |= {"startColumn": frame.column, "endLine": max(frame.end_line, frame.line, 1)}
        region |= {"endColumn": frame.end_column} if frame.end_column else {}
    if frame.source:
        region["snippet"] = {"text": frame.source}
    return {"physicalLocation": {"artifactLocation": _artifact(frame), "region": region}}


def _artifact(frame: Frame) -> dict[str, object]:
    path = frame.path
    encoded = quote(path.encode("utf-8", "surrogateescape"), safe="/")
    if PurePosixPath(path).is_absolute():
        return {"uri": f"file://{encoded}"}
    if PureWindowsPath(path).is_absolute():
        return {"uri": f"file:///{encoded.replace('%3A', ':', 1)}"}  # of the drive
    return {"uri": encoded, **({"uriBaseId": "%SRCROOT%"} if frame.is_user else {})}
