"""Concise report: one line for each finding, in a format for editors and `grep`."""

from syncheck.findings import Finding, Report
from syncheck.report import fixes
from syncheck.report.style import hidden_line, one_line, visible


def render(report: Report, *, is_quiet: bool = False, show_fixes: bool = False) -> str:
    """Return one line for each finding, those on fixes, and one for each reason why the check is incomplete and note.

    Args:
        report: the report; its order is kept.
        is_quiet: whether to omit the numbers of fixed and fixable findings, and the notes.
        show_fixes: whether to list the applied fixes.
    """
    lines = [_line(finding, is_fixable=report.is_fixable(finding)) for finding in report.findings]
    lines += fixes.list_fixed(report) if show_fixes else []
    lines += [] if is_quiet else fixes.count_fixes(report)
    lines += [f"incomplete: {one_line(reason)}" for reason in report.incomplete]
    lines += [f"incomplete: {hidden_line(report.hidden)}"] if report.hidden else []
    lines += [] if is_quiet else [f"note: {one_line(note)}" for note in report.notes]
    return "".join(f"{line}\n" for line in lines)


def _line(finding: Finding, *, is_fixable: bool) -> str:
    frame = finding.location.frame
    # Editors need both numbers, so unknown ones become 1.
    at = f"{_unlike_a_command(visible(frame.path))}:{max(frame.line, 1)}:{max(frame.column, 1)}"
    text = ". ".join(filter(None, (finding.message, finding.proof_summary)))
    mark = f"{fixes.MARK} " if is_fixable else ""
    return f"{at}: {finding.rule.code} [{finding.level}] {mark}{one_line(text)}"


def _unlike_a_command(path: str) -> str:
    """Prefix a path if GitHub Actions would parse a line starting with it as a workflow command.

    Source:
        actions/runner, `ActionCommand.TryParseV2`: a command starts with "::", possibly after blanks.
    """
    return f"./{path}" if path.lstrip().startswith("::") else path
