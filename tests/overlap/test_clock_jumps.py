"""Measured times that cannot be right."""

import pytest

from syncheck.overlap.clock_jumps import find_jumps

MS = 1_000_000
DAY = 86_400_000 * MS


@pytest.mark.parametrize(
    ("moments", "wrong"),
    [
        ([], set()),
        ([5, 5, 9], set()),
        ([0, 10 * MS, 20 * MS], set()),
        ([0, DAY, 10 * MS, 20 * MS], {1}),  # forward and back: only this one is wrong, not the later ones
        ([30 * MS, 40 * MS, 10 * MS, 50 * MS], {2}),
        ([-5, 10, -1, 20], {0, 2}),
        ([10 * MS, 10 * MS - 500, 10 * MS + 3], set()),  # rounding: they are far from the event they are measured from
    ],
)
def test_the_smallest_set_of_times_is_considered_wrong(moments, wrong):
    assert find_jumps(moments) == wrong
