"""Advice that depends on the iterations of a loop, which only runs observe."""

from collections.abc import Sequence

from syncheck.hb.engine import Engine
from syncheck.hb.ids import Accesses, SiteId, StreamId
from syncheck.sanitizer import hot_syncs, overlap_advice
from syncheck.sanitizer.collector import Collector
from syncheck.sanitizer.iteration_counter import IterationCounter
from syncheck.sanitizer.sync_history import SyncHistory


class Advice:
    """Tracks the behavior of loops. Each call must be passed here before it is passed to the engine.

    Attributes:
        syncs: tracks the host's synchronizations.
        overlap: tracks the distribution of work over streams.

    Args:
        engine: the happens-before engine.
        collector: receives the findings.
        history: the calls that ordered the work.
        is_run: whether the calls come from a run; if not, nothing is done.
    """

    def __init__(self, engine: Engine, collector: Collector, history: SyncHistory, *, is_run: bool) -> None:
        self._engine = engine
        self._collector = collector
        self._history = history
        self._is_run = is_run
        self.begin()

    def begin(self) -> None:
        """Start over for another program: no loop continues."""
        self._counter = IterationCounter()
        self.syncs = hot_syncs.HotSyncs(self._engine, self._collector, self._counter)
        self.overlap = overlap_advice.OverlapAdvice(self._engine, self._collector, self._history)
        self._latest: dict[StreamId, tuple[str, Accesses]] = {}  # stream -> operator, what it accesses

    def launching(self, stream: StreamId, operator: str, accesses: Accesses, site: SiteId) -> None:
        """Note that an operator is launched."""
        if not self._is_run:
            return
        launches = self._counter.launches
        launches[site] = launches.get(site, 0) + 1
        self.overlap.launching(stream, operator, site)
        if self.syncs.is_waiting:
            self.syncs.launched(stream)
        self._latest[stream] = (operator, accesses)

    def host_waits(self, stream: StreamId, site: SiteId, *, explicit: bool) -> None:
        """Note that the host waits for a stream, by a call of the program or inside an operator."""
        if self._is_run and stream in self._engine.unfinished():
            operator, accesses = ("", ()) if explicit else self._latest.get(stream, ("", ()))
            self.syncs.host_waits(site, operator, accesses)

    def device_waits(self, device: int, site: SiteId) -> None:
        """Note that the host waits for a device."""
        if self._is_run:
            self.syncs.device_waits(site, device, self._collector.names)

    def cache_emptied(self, site: SiteId) -> None:
        """Note that the program returns free memory to the driver."""
        if self._is_run:
            self.syncs.cache_emptied(site)

    def stream_object(self, ident: int, stream: StreamId, site: SiteId) -> None:
        """Note that the program created a stream object."""
        if self._is_run:
            self.overlap.stream_object(ident, stream, site)

    def timed(self, interval: int, stream: StreamId, operator: str) -> None:
        """See `Monitor`; ignored, because no finding depends on times."""

    def times(self, intervals: Sequence[tuple[int, int, int]]) -> None:
        """See `Monitor`; ignored, as above."""

    def untimed(self) -> None:
        """See `Monitor`; ignored, as above."""


RULES = (*hot_syncs.RULES, *overlap_advice.RULES)
"""The rules that depend on iterations; the linter detects some of them by other means."""
