"""Detection of incorrect timestamps: a stream runs one operation after the other, so they must ascend."""

from bisect import bisect_right
from collections.abc import Sequence

_COARSE_NANOSECONDS = 1_000_000
"""Events that are far apart have coarse timestamps. One that precedes its predecessor by less than this is valid."""


def find_jumps(timestamps: Sequence[int]) -> set[int]:
    """Return the positions of a minimal set of timestamps without which the others ascend, and of negative ones."""
    smoothed = _smoothed(timestamps)
    ends: list[int] = []  # for each length, the least last timestamp of an ascending sequence of that length
    at: list[int] = []  # its position
    before: list[int] = []
    for position, timestamp in enumerate(smoothed):
        length = 0 if timestamp < 0 else bisect_right(ends, timestamp)
        before.append(at[length - 1] if length else -1)
        if timestamp < 0:
            continue
        ends[length : length + 1] = [timestamp]
        at[length : length + 1] = [position]
    wrong = set(range(len(timestamps)))
    position = at[-1] if at else -1
    while position >= 0:
        wrong.discard(position)
        position = before[position]
    return wrong


def _smoothed(timestamps: Sequence[int]) -> list[int]:
    found: list[int] = []
    for timestamp in timestamps:
        last = found[-1] if found else timestamp
        found.append(last if timestamp >= 0 and 0 < last - timestamp < _COARSE_NANOSECONDS else timestamp)
    return found
