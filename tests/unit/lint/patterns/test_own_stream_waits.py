"""Streams that wait for themselves in their own block."""

import pytest

from syncheck.lint.patterns import own_stream_waits
from tests.unit.lint.checking import found_by

SOURCE = """
def f(self, x):
    {before}
    with torch.cuda.stream(self.side):
        {inside}
        y = self.net(x)
    return y
"""
WAIT = "self.side.wait_stream(torch.cuda.current_stream())"


def found(before="pass", inside=WAIT):
    return found_by(own_stream_waits, SOURCE.format(before=before, inside=inside))


@pytest.mark.parametrize(
    "inside", [WAIT, "now = torch.cuda.current_stream(); self.side.wait_stream(now)", WAIT.replace("()", "(0)")]
)
def test_a_wait_for_the_current_stream_inside_the_block_is_reported(inside):
    assert found(inside=inside.replace("wait_stream(0)", "wait_stream()")) == [("SYN105", 5)]


@pytest.mark.parametrize(
    ("before", "inside"),
    [
        (WAIT, "pass"),
        (WAIT, WAIT),
        ("now = torch.cuda.current_stream()", "self.side.wait_stream(now)"),
        ("pass", "self.side.wait_stream(self.other)"),
        ("pass", "self.other.wait_stream(torch.cuda.current_stream())"),
    ],
)
def test_waits_for_other_streams_are_not_reported(before, inside):
    assert found(before, inside) == []
