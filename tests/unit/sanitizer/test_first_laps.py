"""Waits for events that are recorded later in the same loop."""

import pytest

from syncheck.sanitizer.first_laps import FirstLaps
from tests.unit.sanitizer.program import Text

TEXT = """event = make()
for i in n:
    event.synchronize()
    event.record()
"""


@pytest.mark.parametrize(
    ("wait", "recorded", "made", "expected"),
    [(3, 4, 1, True), (3, 4, 2, False), (1, 4, 3, False)],
)
def test_the_wait_of_the_first_iteration_is_for_the_next_one(wait, recorded, made, expected):
    laps = FirstLaps()
    laps.note([wait], recorded, made)
    assert laps.includes(wait, Text(TEXT)) is expected


def test_other_waits_and_unknown_files_are_not_included():
    laps = FirstLaps()
    laps.note([3], 4, 1)
    assert not laps.includes(5, Text(TEXT))
    assert not laps.includes(3, Text(TEXT, readable=False))
