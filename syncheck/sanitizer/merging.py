"""Merging of findings that one inserted line fixes."""

from dataclasses import replace

from syncheck.findings import Applicability, Finding
from syncheck.rules import unordered_first_use, unordered_overwrite, unordered_read, unordered_write

MAX_RELATED = 5
"""Number of other locations that a finding shows."""
_RACES = frozenset(
    rule.RULE.code for rule in (unordered_read, unordered_overwrite, unordered_write, unordered_first_use)
)


def merge_by_fix(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Merge findings with the same location and fix, such as those of a hook that races with the work of each layer.

    Races with different codes are merged, too: in a ring of buffers, the first iteration uses memory too early and the
    next ones overwrite what is still being read, but one wait is missing. The race with the lowest code is kept.
    """
    merged: dict[object, Finding] = {}
    for finding in findings:
        frame, fix = finding.location.frame, finding.fix
        is_sure = fix is not None and fix.applicability is not Applicability.EXAMPLE
        kind = "race" if finding.rule.code in _RACES else finding.rule.code
        key = (kind, finding.level, frame.path, frame.line, frame.column, fix) if is_sure else id(finding)
        known = merged.get(key)
        merged[key] = finding if known is None else _merged(known, finding)
    return tuple(merged.values())


def _merged(one: Finding, other: Finding) -> Finding:
    """Merge two findings; those of one rule are counted together."""
    if one.rule is other.rule:
        return _with_locations_of(one, other, one.count + other.count)
    first, second = sorted((one, other), key=lambda finding: finding.rule.code)
    return _with_locations_of(first, second, first.count)


def _with_locations_of(one: Finding, other: Finding, count: int) -> Finding:
    known = {(location.frame, location.message) for location in one.related}
    room = max(0, MAX_RELATED - len(one.related))
    more = [location for location in other.related if (location.frame, location.message) not in known][:room]
    return replace(one, count=count, related=(*one.related, *more))
