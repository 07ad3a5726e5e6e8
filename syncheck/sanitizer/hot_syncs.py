"""Advice on host synchronizations that a loop makes on every iteration."""

from syncheck.hb.clock import HOST
from syncheck.hb.engine import Engine
from syncheck.hb.ids import Access, Accesses, SiteId, StreamId
from syncheck.rules import device_wide_sync, empty_cache_in_loop, host_sync_in_loop
from syncheck.sanitizer.collector import Collector, PendingFinding
from syncheck.sanitizer.iteration_counter import HOT, IterationCounter
from syncheck.sanitizer.messages import Names, Text
from syncheck.semantics.copies import COPIES

_READS = frozenset({*COPIES, "aten::_local_scalar_dense"})
_IN_STEPS = ("torch/optim/lbfgs.py", "torch/amp/grad_scaler.py")
"""Files of torch whose `step` reads values: the program cannot avoid it."""
_TO_HOST, _FROM_HOST = "a copy to the host", "a copy from pinned memory"
_CALLS = {
    "aten::_local_scalar_dense": "`.item()`",
    "aten::copy_": _TO_HOST,
    "aten::_to_copy": _TO_HOST,
    "aten::index": "an index that is a list or a mask",
    "aten::index_put_": "an index that is a list or a mask",
    "": "`synchronize()`",
}
_INSTEAD = {
    _FROM_HOST: "pass `non_blocking=True` to the copy at {line}: the memory is pinned, so the host need not wait",
    "aten::index": "index with a slice or with a tensor on the GPU instead of a list, and use `torch.where` for a mask",
    "aten::index_put_": "index with a tensor on the GPU instead of a list, and use `torch.where` for a mask",
    "aten::nonzero": "avoid results whose size depends on values: use `torch.where` with three arguments",
    "aten::masked_select": "avoid results whose size depends on values: use `torch.where` with three arguments",
    "aten::repeat_interleave": "pass `output_size`, so that the size of the result is known",
    "aten::_linalg_check_errors": "call the variant that does not check, such as `torch.linalg.cholesky_ex`",
}
"""Operator or call -> what to do instead.

Source:
    torch.repeat_interleave, `output_size`: "it will avoid stream synchronization needed to calculate output shape";
    torch.linalg.cholesky_ex: "This function skips the (slow) error checking"; PyTorch Performance Tuning Guide, "Avoid
    unnecessary CPU-GPU synchronization".
"""
_READ_LATER = (
    "keep the value on the GPU and read it once, after the loop or every few iterations; where the wait is "
    'intended: `with syncheck.allow_sync("why"):`'
)


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

    def host_waits(self, site: SiteId, operator: str, accesses: Accesses = ()) -> None:
        """Note that the host waits for a stream or an event.

        Args:
            site: the call.
            operator: the operator that waits; "" for an explicit wait.
            accesses: what that operator accesses.
        """
        call = _CALLS.get(operator, f"`{operator.removeprefix('aten::')}`")
        if operator in COPIES and any(access[2] and not self._is_on_host(access) for access in accesses):
            if not any(self._is_on_host(access) for access in accesses):
                return  # a copy from pageable memory: see SYN303
            call = _FROM_HOST
        if self._counter.count(site, is_read=operator in _READS and call != _FROM_HOST) >= HOT:
            advice: Text = (_INSTEAD.get(call) or _INSTEAD.get(operator, _READ_LATER),)
            self._collector.add(
                PendingFinding(host_sync_in_loop.RULE, site, {"call": (call,)}, [], advice, exempt_paths=_IN_STEPS)
            )

    def _is_on_host(self, access: Access) -> bool:
        return self._engine.is_live(access[0]) and self._engine.home_of(access[0]) == HOST

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
