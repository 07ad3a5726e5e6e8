"""Findings that one inserted line fixes become one finding."""

from syncheck.findings import Applicability, Edit, EditKind, Finding, Fix, Frame, Location
from syncheck.rules import missing_record_stream, unordered_first_use, unordered_overwrite, unordered_read
from syncheck.sanitizer.merging import MAX_RELATED, merge_by_fix

SAFE = Applicability.SAFE


def finding(rule, line=10, code="side.wait_stream(main)", related=(3,), count=1, applicability=SAFE):
    edit = Edit(EditKind.INSERT_BEFORE, "train.py", line, 0, code)
    return Finding(
        rule.RULE, Location(Frame("train.py", line, 5)), "message", count=count,
        related=tuple(Location(Frame("train.py", number), "there") for number in related),
        fix=Fix((edit,), applicability),
    )  # fmt: skip


def lines(finding):
    return [location.frame.line for location in finding.related]


def test_findings_of_one_rule_are_counted_together():
    (merged,) = merge_by_fix((finding(unordered_read, count=2), finding(unordered_read, related=(3, 4), count=5)))
    assert (merged.count, lines(merged)) == (7, [3, 4])


def test_races_with_one_missing_wait_are_one_finding_in_either_order():
    early, late = finding(unordered_first_use, related=(2,)), finding(unordered_overwrite, count=3)
    for order in ((early, late), (late, early)):
        (merged,) = merge_by_fix(order)
        assert (merged.rule.code, merged.count, lines(merged)) == ("SYN102", 3, [3, 2])


def test_other_lines_fixes_and_rules_stay_apart():
    first = finding(unordered_overwrite)
    others = (
        finding(unordered_first_use, line=11),
        finding(unordered_first_use, code="main.wait_stream(side)"),
        finding(missing_record_stream),
        finding(unordered_first_use, applicability=Applicability.EXAMPLE),
        finding(unordered_first_use, applicability=Applicability.EXAMPLE),
    )
    assert merge_by_fix((first, *others)) == (first, *others)


def test_related_places_are_limited():
    findings = tuple(finding(unordered_read, related=(number,)) for number in range(20, 40))
    (merged,) = merge_by_fix(findings)
    assert len(merged.related) == MAX_RELATED
