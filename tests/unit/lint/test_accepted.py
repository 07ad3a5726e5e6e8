"""Findings that a comment of the program accepts."""

import pytest

from syncheck.findings import Finding, Frame, Location
from syncheck.lint.accepted import as_warnings
from syncheck.rules.catalogue import find
from syncheck.rules.model import Severity


def level(lines, line, level=Severity.ERROR):
    made = Finding(find("SYN301"), Location(Frame("a.py", line)), "", level=level)
    (reported,) = as_warnings([made], lines)
    return reported.level.value


@pytest.mark.parametrize(
    ("comment", "expected"),
    [
        ("# stale host read, no sync", "warning"),
        ("# read one step late on purpose", "warning"),
        ("# Intentionally racy", "warning"),
        ("# do not synchronize here", "warning"),
        ("# without a wait", "warning"),
        ("# the copy is complete", "error"),
        ("# nosync_group", "error"),
        ("", "error"),
    ],
)
def test_a_comment_at_the_line_or_above_it_accepts(comment, expected):
    assert level([f"x = host[0]  {comment}\n"], 1) == expected
    assert level([f"    {comment}\n", "    x = host[0]\n"], 2) == expected


def test_other_comments_accept_nothing():
    assert level(["y = 1  # stale\n", "x = host[0]\n"], 2) == "error"
    assert level(["# stale\n", "y = 1\n", "x = host[0]\n"], 3) == "error"
    assert level(["# stale\n"], 5) == "error"


def test_advice_stays_advice():
    assert level(["x = host[0]  # stale\n"], 1, Severity.ADVICE) == "advice"
