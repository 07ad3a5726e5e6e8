"""An index of byte ranges that finds overlapping entries without scanning all of them."""

from collections.abc import Iterator
from typing import Generic, TypeVar

Payload = TypeVar("Payload")
_Entry = tuple[int, int, int, Payload]


class Intervals(Generic[Payload]):
    """Half-open ranges with a payload each, in buckets by length and start.

    A range of at most 2**k bytes is in the bucket of size 2**k that contains its start, and ends at most one bucket
    later.
    """

    __slots__ = ("_levels", "_number")

    def __init__(self) -> None:
        self._number = 0
        self._levels: dict[int, dict[int, list[_Entry[Payload]]]] = {}  # k -> start >> k -> entries

    def add(self, start: int, stop: int, payload: Payload) -> None:
        """Add a payload for the range `[start, stop)`."""
        level = max(stop - start - 1, 0).bit_length()
        buckets = self._levels.setdefault(level, {})
        buckets.setdefault(start >> level, []).append((self._number, start, stop, payload))
        self._number += 1

    def overlapping(self, start: int, stop: int) -> list[Payload]:
        """Return the payloads whose range overlaps `[start, stop)`, in insertion order."""
        found: list[_Entry[Payload]] = []
        for level, buckets in self._levels.items():
            for bucket in self._buckets_in(buckets, (start >> level) - 1, (stop - 1) >> level):
                found += [entry for entry in bucket if entry[1] < stop and start < entry[2]]
        found.sort(key=lambda entry: entry[0])
        return [entry[3] for entry in found]

    @staticmethod
    def _buckets_in(
        buckets: dict[int, list[_Entry[Payload]]], first: int, last: int
    ) -> Iterator[list[_Entry[Payload]]]:
        if last - first >= len(buckets):
            yield from buckets.values()
            return
        for number in range(first, last + 1):
            bucket = buckets.get(number)
            if bucket is not None:
                yield bucket
