"""Report lines on the fixes that `lint --fix` has applied or could apply."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from syncheck.findings import Report, counted
from syncheck.report.style import visible

MARK = "[*]"
"""Marks a fixable finding."""


def list_fixed(report: Report) -> Iterator[str]:
    """Yield the applied fixes: for each file, the number per rule."""
    if report.fixed:
        yield f"Fixed {counted(len(report.fixed), 'finding')}:"
    for path in dict.fromkeys(finding.location.frame.path for finding in report.fixed):
        yield f"- {visible(path)}:"
        rules = Counter(finding.rule for finding in report.fixed if finding.location.frame.path == path)
        for rule, number in sorted(rules.items(), key=lambda item: item[0].code):
            yield f"    {number} x {rule.code} ({rule.name})"
    if report.fixed:
        yield ""


def count_fixes(report: Report) -> Iterator[str]:
    """Yield the numbers of fixed and fixable findings."""
    remaining = len(report.findings) + report.hidden
    fixed, safe, more = numbers(report)
    if fixed:
        found = counted(fixed + remaining, "finding")
        yield f"Found {found} ({fixed:,} fixed, {remaining:,} remaining)"
    if safe:
        yield f"{MARK} {safe:,} fixable with --fix" + (f", {more:,} more with --unsafe-fixes" if more else "")
    elif more:
        yield f"{more:,} fixable with --unsafe-fixes"


def numbers(report: Report) -> tuple[int, int, int]:
    """Return the numbers of fixed findings, of those fixable with `--fix`, and of more with `--unsafe-fixes`."""
    safe = sum(map(report.is_fixable, report.findings))
    with_unsafe = sum(map(replace(report, is_unsafe_wanted=True).is_fixable, report.findings))
    return len(report.fixed), safe, with_unsafe - safe
