"""Streams and timing events that a loop creates on every iteration."""

from syncheck.hb.ids import ObjectKind, SiteId
from syncheck.sanitizer import misuse
from syncheck.sanitizer.collector import Collector

_REPETITIONS = {ObjectKind.STREAM: 3, ObjectKind.TIMING_EVENT: 8}
"""Objects made at one place, all but the last two gone again, that count as created on every iteration of a loop."""


class CreatedInLoop:
    """Counts what was made, and is gone again, at each call site."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._counts: dict[tuple[ObjectKind, int], list[int]] = {}  # (kind, site) -> [made, dropped]
        self._made_at: dict[tuple[ObjectKind, int], int] = {}

    def object_created(self, kind: ObjectKind, ident: int, site: SiteId) -> None:
        """An object was made."""
        counts = self._counts.setdefault((kind, site), [0, 0])
        self._made_at[kind, ident] = site
        counts[0] += 1
        if counts[0] >= _REPETITIONS[kind] and counts[1] >= counts[0] - 2:
            pending = misuse.made_in_loop(kind, site)
            pending.count = counts[0]  # of a repetition the ledger counts one more
            self._collector.add(pending)

    def object_destroyed(self, kind: ObjectKind, ident: int) -> None:
        """An object is gone."""
        site = self._made_at.pop((kind, ident), None)
        if site is not None:
            self._counts[kind, site][1] += 1
