"""Counts launches per stream, with the same numbers as the engine."""

from collections import Counter
from typing import Any

from syncheck.hb.ids import Accesses, AllocationId, Context, GraphId, SiteId, StreamId
from syncheck.sanitizer.monitor import Monitor
from syncheck.witness.schedule import LaunchId


class LaunchCounts:
    """Forwards calls to a monitor and counts the launches of each stream.

    Attributes:
        allocated: allocation -> stream and call site of its allocation, for live allocations.

    Args:
        monitor: receives the calls.
    """

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor
        self._counts: Counter[StreamId] = Counter()
        self.allocated: dict[AllocationId, tuple[StreamId, SiteId]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._monitor, name)

    def next(self, stream: StreamId) -> LaunchId:
        """Return the id of a stream's next launch."""
        return LaunchId(stream, self._counts[stream] + 1)

    def snapshot(self) -> Counter[StreamId]:
        """Return the number of launches of each stream."""
        return self._counts.copy()

    def has_launched(self, launch: LaunchId) -> bool:
        """Return whether a launch has been reported."""
        return self._counts[StreamId(launch.stream)] >= launch.number

    def launch(
        self, stream: StreamId, operator: str, accesses: Accesses, site: SiteId, context: Context | None = None
    ) -> None:
        """See `Monitor`."""
        self._counts[stream] += not self._monitor.capturing(stream)
        self._monitor.launch(stream, operator, accesses, site, context)

    def launches_elided(self, stream: StreamId, count: int, site: SiteId) -> None:
        """See `Monitor`."""
        self._counts[stream] += count
        self._monitor.launches_elided(stream, count, site)

    def replay(self, graph: GraphId, stream: StreamId, site: SiteId) -> None:
        """See `Monitor`."""
        self._counts[stream] += 1
        self._monitor.replay(graph, stream, site)

    def allocate(self, allocation: AllocationId, home: StreamId, n_bytes: int, pool: int, site: SiteId) -> None:
        """See `Monitor`."""
        self.allocated[allocation] = home, site
        self._monitor.allocate(allocation, home, n_bytes, pool, site)

    def free(self, allocation: AllocationId, site: SiteId) -> None:
        """See `Monitor`."""
        self.allocated.pop(allocation, None)
        self._monitor.free(allocation, site)
