"""One line for each finding, in the form that editors and `grep` understand."""

from syncheck.findings import Finding, Report
from syncheck.report.style import hidden_line, one_line, visible


def render(report: Report) -> str:
    """Return one line for each finding, then one for each reason why this may not be all."""
    lines = [_line(finding) for finding in report.findings]
    lines += [f"incomplete: {one_line(reason)}" for reason in report.incomplete]
    lines += [f"incomplete: {hidden_line(report.hidden)}"] if report.hidden else []
    return "".join(f"{line}\n" for line in lines)


def _line(finding: Finding) -> str:
    frame = finding.place.frame
    # Editors want both numbers, so what is unknown becomes 1.
    at = f"{_unlike_a_command(visible(frame.path))}:{max(frame.line, 1)}:{max(frame.column, 1)}"
    text = ". ".join(filter(None, (finding.message, finding.proof_in_words)))
    return f"{at}: {finding.rule.code} [{finding.level}] {one_line(text)}"


def _unlike_a_command(path: str) -> str:
    """Return a path such that GitHub Actions takes no line that begins with it for a workflow command.

    Source:
        actions/runner, `ActionCommand.TryParseV2`: "::", after blanks, begins one.
    """
    return f"./{path}" if path.lstrip().startswith("::") else path
