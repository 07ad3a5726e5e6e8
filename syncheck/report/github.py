"""Annotations for GitHub Actions.

Source:
    GitHub documentation, "Workflow commands for GitHub Actions":
    `::error file=...,line=...,col=...,title=...::message`.
"""

from syncheck.findings import Finding, Report
from syncheck.report.cells import in_files
from syncheck.report.style import one_line, visible
from syncheck.rules.model import Severity

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.ADVICE: "notice"}


def render(report: Report) -> str:
    """Return one command for each finding, and a warning for each reason why the check is incomplete."""
    lines = [_command(finding) for finding in in_files(report).findings]
    lines += [f"::warning title=syncheck is incomplete::{_data(reason)}" for reason in report.incomplete]
    return "".join(f"{line}\n" for line in lines)


def _command(finding: Finding) -> str:
    frame = finding.location.frame
    location = f"file={_property(frame.path)},line={max(frame.line, 1)},endLine={max(frame.end_line, frame.line, 1)}"
    if frame.column and frame.end_line <= frame.line:
        location += f",col={frame.column},endColumn={max(frame.end_column, frame.column)}"
    message = "\n".join(filter(None, (one_line(finding.message), finding.help, finding.proof_summary)))
    title = f"{finding.rule.code} {finding.rule.name}"
    return f"::{_COMMANDS[finding.level]} {location},title={_property(title)}::{_data(message)}"


def _data(text: str) -> str:
    return visible(text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A"))


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
