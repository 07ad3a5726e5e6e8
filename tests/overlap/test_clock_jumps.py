"""Measured moments that cannot be right."""

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
        ([0, DAY, 10 * MS, 20 * MS], {1}),  # forward and back: one is wrong, and not all that come after it
        ([30 * MS, 40 * MS, 10 * MS, 50 * MS], {2}),
        ([-5, 10, -1, 20], {0, 2}),
        ([10 * MS, 10 * MS - 500, 10 * MS + 3], set()),  # far from the event that they are measured from
    ],
)
def test_the_fewest_moments_are_wrong(moments, wrong):
    assert find_jumps(moments) == wrong
