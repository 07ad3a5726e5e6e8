"""Advice on host synchronizations that a loop makes on every iteration."""

from syncheck.hb.engine import Engine
from syncheck.hb.ids import SiteId, StreamId
from syncheck.rules import device_wide_sync, empty_cache_in_loop, host_sync_in_loop
from syncheck.sanitizer.collector import Collector, PendingFinding
from syncheck.sanitizer.iteration_counter import HOT, IterationCounter
from syncheck.sanitizer.messages import Names, Text
from syncheck.semantics.copies import COPIES

_READS = frozenset({*COPIES, "aten::_local_scalar_dense"})
_IN_STEPS = ("torch/optim/lbfgs.py", "torch/amp/grad_scaler.py")
"""Files of torch whose `step` reads values: the program cannot avoid it."""
_CALLS = {"aten::_local_scalar_dense": "`.item()`", "aten::copy_": "a copy to the host", "": "`synchronize()`"}


class HotSyncs:
    """Tracks host synchronizations.

    Args:
        engine: the happens-before engine.
        collector: receives the findings.
        counter: counts iterations.
    """

    def __init__(self, engine: Engine, collector: Collector, counter: IterationCounter) -> None:
        self._engine = engine
        self._collector = collector
        self._counter = counter
        self._unneeded_wait: SiteId | None = None  # a device-wide wait that nothing has needed yet
        self._unneeded_iterations: dict[SiteId, int] = {}
        self._busy: dict[SiteId, int] = {}  # number of streams of the device with work at the last such wait

    def host_waits(self, site: SiteId, operator: str, *, is_write: bool) -> None:
        """Note that the host waits for a stream or an event.

        Args:
            site: the call.
            operator: the operator that waits; "" for an explicit wait.
            is_write: whether that operator writes GPU memory, so that it returns nothing to the host.
        """
        if operator in COPIES and is_write:
            return  # copies from the host are covered by SYN303 and the page of SYN801
        if self._counter.count(site, is_read=operator in _READS) >= HOT:
            call: Text = (_CALLS.get(operator, f"`{operator.removeprefix('aten::')}`"),)
            advice: Text = (
                "keep the value on the GPU and read it once, after the loop or every few iterations; where the wait is "
                'intended: `with syncheck.allow_sync("why"):`',
            )
            self._collector.add(
                PendingFinding(host_sync_in_loop.RULE, site, {"call": call}, [], advice, exempt_paths=_IN_STEPS)
            )

    def device_waits(self, site: SiteId, device: int, names: Names) -> None:
        """Note that the host waits for a device; called before the engine is notified."""
        unfinished = [s for s in self._engine.unfinished() if names.streams[s].device == device]
        self._unneeded_wait = site if unfinished else None
        self._busy[site] = len(unfinished)

    def cache_emptied(self, site: SiteId) -> None:
        """Note that the program returns free memory to the driver, which waits for the GPU."""
        if self._counter.count(site) >= HOT:
            advice: Text = (
                "remove the call at {line}: the allocator reuses free memory anyway; call it once, after the "
                "loop, where another process needs the memory",
            )
            self._collector.add(PendingFinding(empty_cache_in_loop.RULE, site, {}, [], advice))

    def host_inspects(self) -> None:
        """Note that the host inspects memory, a clock or an event, so the preceding wait had a purpose."""
        if self._unneeded_wait is not None:
            self._unneeded_iterations[self._unneeded_wait] = 0
            self._unneeded_wait = None

    def launched(self, stream: StreamId) -> None:
        """Note a launch: directly after a device-wide wait, it means that the host did not need the wait."""
        del stream
        site = self._unneeded_wait
        self._unneeded_wait = None
        if site is None or not self._counter.count(site):
            return
        iterations = self._unneeded_iterations[site] = self._unneeded_iterations.get(site, 0) + 1
        if iterations >= HOT:
            is_one = self._busy[site] < 2
            other = "stream order alone" if is_one else "`wait_stream` between the two streams"
            advice: Text = (
                "remove the call at {line}: later work on the same stream is ordered anyway"
                if is_one
                else "make the stream that needs the work wait for it; the host continues",
            )
            self._collector.add(PendingFinding(device_wide_sync.RULE, site, {"alternative": (other,)}, [], advice))

    @property
    def is_waiting(self) -> bool:
        """Return whether the latest call was a device-wide wait."""
        return self._unneeded_wait is not None


RULES = (host_sync_in_loop.RULE, device_wide_sync.RULE, empty_cache_in_loop.RULE)
"""The rules that this module reports."""
