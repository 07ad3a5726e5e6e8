"""Findings about what the last iteration of a loop leaves running."""

import pytest

from syncheck.findings import Finding, Frame, Location
from syncheck.lint.remainders import Remainders
from syncheck.rules.catalogue import find
from syncheck.rules.model import Severity


def frame(line):
    return Frame("a.py", line)


def finding(code="SYN701", read=9, starts=(1,)):
    related = tuple(Location(frame(line)) for line in (5, *starts))
    return Finding(find(code), Location(frame(read)), "it is running", related=related, level=Severity.ERROR)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, True), ({"starts": (1, 2)}, True), ({"starts": (1, 3)}, False), ({"starts": ()}, False),
        ({"read": 8}, False), ({"code": "SYN101"}, False),
    ],
)  # fmt: skip
def test_all_intervals_of_a_finding_have_to_be_known(given, expected):
    assert Remainders({(frame(1), frame(9)), (frame(2), frame(9))}).include(finding(**given)) == expected


def test_they_are_reported_only_on_request_and_as_warnings():
    assert list(Remainders().reported(finding())) == []
    (shown,) = Remainders(are_reported=True).reported(finding())
    assert (shown.level, shown.message.partition(",")[0]) == (Severity.WARNING, "it is running")
    assert "only with what follows the last wait" in shown.message
