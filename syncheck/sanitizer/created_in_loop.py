"""Detection of streams and timing events that a loop creates on every iteration."""

from syncheck.hb.ids import ObjectKind, SiteId
from syncheck.sanitizer import misuse
from syncheck.sanitizer.collector import Collector

_REPETITIONS = {ObjectKind.STREAM: 3, ObjectKind.TIMING_EVENT: 8}
"""Number of objects created at one location, all but the last two destroyed, that indicates creation in a loop."""


class CreatedInLoop:
    """Counts created and destroyed objects for each call site."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._counts: dict[tuple[ObjectKind, int], list[int]] = {}  # (kind, site) -> [made, dropped]
        self._made_at: dict[tuple[ObjectKind, int], int] = {}

    def object_created(self, kind: ObjectKind, ident: int, site: SiteId) -> None:
        """Note that an object was created."""
        counts = self._counts.setdefault((kind, site), [0, 0])
        self._made_at[kind, ident] = site
        counts[0] += 1
        if counts[0] >= _REPETITIONS[kind] and counts[1] >= counts[0] - 2:
            pending = misuse.created_in_loop(kind, site)
            pending.count = counts[0]  # on repetitions the collector adds one instead
            self._collector.add(pending)

    def object_destroyed(self, kind: ObjectKind, ident: int) -> None:
        """Note that an object was destroyed."""
        site = self._made_at.pop((kind, ident), None)
        if site is not None:
            self._counts[kind, site][1] += 1
