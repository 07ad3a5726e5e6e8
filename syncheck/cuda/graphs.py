"""CUDA graphs: a capture records what its operators touch, and a replay touches all of it at once.

A graph that draws random numbers keeps seed and offset in memory of its own. torch fills it on the capture's stream
when the capture begins, and on the current stream at each replay. Nothing orders the two, and no program can, so they
are not checked.

Source:
    aten/src/ATen/cuda/CUDAGeneratorImpl.cpp, `capture_prologue` and `replay_prologue`; seen on an H200.
"""

from functools import wraps
from itertools import count
from typing import Any

import torch

from syncheck.cuda import devices
from syncheck.cuda.captures import Captures
from syncheck.cuda.owners import Owners
from syncheck.cuda.reporter import Reporter
from syncheck.cuda.streams import Streams
from syncheck.hb.ids import GraphId
from syncheck.instrument.kept_results import KeptResults
from syncheck.instrument.patching import Patches
from syncheck.instrument.torch_internals import disable_dispatch_modes

_IDENT = "_syncheck_graph"
_POOL = "_syncheck_pool"


def device_of_graph(graph: Any) -> int:
    """Return the device that a graph was captured on; the current device if the capture was not seen."""
    return int(getattr(graph, _IDENT, (None, 0, devices.current_device()))[2])


class Graphs:
    """Hooks the methods of torch.cuda.CUDAGraph."""

    def __init__(
        self, reporter: Reporter, streams: Streams, owners: Owners, captures: Captures, kept_results: KeptResults
    ) -> None:
        self._reporter = reporter
        self._streams = streams
        self._owners = owners
        self._kept_results = kept_results
        self._captures = captures
        self._pools: dict[tuple[int, int], int] = {}  # memory pool of torch -> its number
        self._numbers = count(1)

    def install(self, patches: Patches) -> None:
        """Install all hooks."""
        kind = torch.cuda.CUDAGraph
        patches.set(kind, "capture_begin", self._capture_begin(kind.capture_begin))
        patches.set(kind, "capture_end", self._capture_end(kind.capture_end))
        patches.set(kind, "replay", self._replay(kind.replay))

    def _ident_of(self, graph: Any) -> GraphId:
        """Return a graph's id; 0 if it was captured before this check began."""
        owner, ident, _ = getattr(graph, _IDENT, (None, 0, 0))
        return GraphId(ident if owner is self._reporter.token else 0)

    def _number(self, pool: tuple[int, int] | None) -> int:
        """Return the number of a memory pool, or that of a new one."""
        if pool is None:
            return next(self._numbers)
        return self._pools.setdefault(pool, next(self._numbers))

    def _capture_begin(self, original: Any) -> Any:
        reporter = self._reporter

        @wraps(original)
        def capture_begin(graph: Any, *args: Any, **kwargs: Any) -> Any:
            self._captures.hold_garbage()
            try:
                with disable_dispatch_modes():
                    result = original(graph, *args, **kwargs)
            except BaseException:
                self._captures.release_garbage()
                raise
            if not reporter.callbacks_suppressed:
                ident, device = reporter.next_graph(), devices.current_device()
                setattr(graph, _IDENT, (reporter.token, ident, device))
                self._captures.begin()
                pool = self._number(args[0] if args else kwargs.get("pool"))
                setattr(graph, _POOL, pool)
                with reporter.locked_monitor() as monitor:
                    monitor.capture_begin(ident, self._streams.current(device), reporter.site(), pool)
            return result

        return capture_begin

    def _capture_end(self, original: Any) -> Any:
        reporter = self._reporter

        @wraps(original)
        def capture_end(graph: Any) -> Any:
            ident = self._ident_of(graph)
            if ident and not reporter.callbacks_suppressed and self._captures:
                self._captures.end()
                with reporter.locked_monitor() as monitor:
                    monitor.capture_end(ident)
            try:
                result = original(graph)
            finally:
                self._captures.release_garbage()
            if hasattr(graph, _POOL):  # torch reveals a graph's own pool only now
                self._pools.setdefault(graph.pool(), getattr(graph, _POOL))
            return result

        return capture_end

    def _replay(self, original: Any) -> Any:
        reporter = self._reporter

        @wraps(original)
        def replay(graph: Any) -> Any:
            with disable_dispatch_modes():
                result = original(graph)
            ident = self._ident_of(graph)
            if reporter.callbacks_suppressed:
                return result
            if not ident:
                reporter.monitor.incomplete("a CUDA graph captured before the check began was replayed")
                return result
            self._owners.clear()
            with reporter.locked_monitor() as monitor:
                device = getattr(graph, _IDENT)[2]  # it runs where it was captured, regardless of the current device
                site = reporter.site()
                monitor.replay(ident, self._streams.current(device), site)
                self._kept_results.replayed(ident, monitor, site)
            return result

        return replay
