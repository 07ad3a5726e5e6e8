"""An index of byte ranges that finds overlapping entries without scanning all of them."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import Generic, TypeVar

Payload = TypeVar("Payload")
_Entry = tuple[int, int, int, Payload]


class _Level(Generic[Payload]):
    """The buckets of one size that are not empty.

    Attributes:
        numbers: their numbers, in order.
        buckets: number -> the entries whose range starts in the bucket.
    """

    __slots__ = ("buckets", "numbers")

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.buckets: dict[int, list[_Entry[Payload]]] = {}

    def between(self, first: int, last: int) -> Iterator[list[_Entry[Payload]]]:
        """Yield the buckets with the numbers `first` to `last`."""
        for number in self.numbers[bisect_left(self.numbers, first) : bisect_right(self.numbers, last)]:
            yield self.buckets[number]


class Intervals(Generic[Payload]):
    """Half-open ranges with a payload each, in buckets by length and start.

    A range of at most 2**k bytes is in the bucket of size 2**k that contains its start, and ends at most one bucket
    later.
    """

    __slots__ = ("_levels", "_number")

    def __init__(self) -> None:
        self._number = 0
        self._levels: dict[int, _Level[Payload]] = {}  # k -> the buckets of size 2**k

    def add(self, start: int, stop: int, payload: Payload) -> None:
        """Add a payload for the range `[start, stop)`."""
        exponent = _exponent(start, stop)
        level = self._levels.get(exponent)
        if level is None:
            level = self._levels[exponent] = _Level()
        number = start >> exponent
        bucket = level.buckets.get(number)
        if bucket is None:
            bucket = level.buckets[number] = []
            insort(level.numbers, number)
        bucket.append((self._number, start, stop, payload))
        self._number += 1

    def remove(self, start: int, stop: int, payload: Payload) -> None:
        """Remove a payload that was added for the range `[start, stop)`."""
        exponent = _exponent(start, stop)
        level, number = self._levels[exponent], start >> exponent
        kept = [entry for entry in level.buckets[number] if entry[3] is not payload]
        if kept:
            level.buckets[number] = kept
        else:
            del level.buckets[number]
            del level.numbers[bisect_left(level.numbers, number)]

    def overlapping(self, start: int, stop: int) -> list[Payload]:
        """Return the payloads whose range overlaps `[start, stop)`, in insertion order."""
        found: list[_Entry[Payload]] = []
        for exponent, level in self._levels.items():
            for bucket in level.between((start >> exponent) - 1, (stop - 1) >> exponent):
                found += [entry for entry in bucket if entry[1] < stop and start < entry[2]]
        found.sort(key=lambda entry: entry[0])
        return [entry[3] for entry in found]


def _exponent(start: int, stop: int) -> int:
    """Return the smallest k such that a range is no longer than 2**k bytes."""
    return max(stop - start - 1, 0).bit_length()
