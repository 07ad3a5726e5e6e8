"""Streams and timing events that a loop makes anew in every turn."""

from syncheck.sanitizer import misuse
from syncheck.sanitizer.collector import Collector

_TURNS = {"stream": 3, "timing event": 8}
"""Objects made at one place, all but the last two gone again, that count as made in every turn of a loop."""


class CreatedInLoop:
    """Counts what was made, and is gone again, at each call site."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._counts: dict[tuple[str, int], list[int]] = {}  # (thing, site) -> [made, dropped]
        self._made_at: dict[tuple[str, int], int] = {}

    def object_created(self, thing: str, ident: int, site: int) -> None:
        """An object was made."""
        counts = self._counts.setdefault((thing, site), [0, 0])
        self._made_at[thing, ident] = site
        counts[0] += 1
        if counts[0] >= _TURNS[thing] and counts[1] >= counts[0] - 2:
            pending = misuse.made_in_loop(thing, site)
            pending.count = counts[0]  # of a repetition the ledger counts one more
            self._collector.add(pending)

    def object_destroyed(self, thing: str, ident: int) -> None:
        """An object is gone."""
        site = self._made_at.pop((thing, ident), None)
        if site is not None:
            self._counts[thing, site][1] += 1
