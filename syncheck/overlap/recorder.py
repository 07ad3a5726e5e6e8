"""Recording of the calls that create work and order, from which the graph is built at the end of a run."""

import inspect
import os
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from syncheck.hb.ids import Accesses, AllocationId, Context, SiteId, StreamId, ViewId
from syncheck.overlap.builder import NO_OP, Builder
from syncheck.overlap.clock_jumps import find_jumps
from syncheck.overlap.model import Graph
from syncheck.sanitizer.messages import Names
from syncheck.sanitizer.session import Session

MAX_CALLS = 4_000_000
"""Maximum number of recorded calls, at a few hundred bytes each."""

_LOGGED = frozenset(name for name, _ in inspect.getmembers(Builder, inspect.isfunction) if not name.startswith("_")) - {
    "view"
}
_SHOWN_AS = {"aten::_to_copy": "aten::copy_"}
"""Operators that are reported under another name: a copy between devices."""
_WORK = frozenset({"replay"})
_NO_KEYWORDS: dict[str, Any] = {}

_Call = tuple[str, tuple[Any, ...], dict[str, Any]]
Interval = tuple[int, int, int]
"""(number of a measured interval, its start, its duration), in nanoseconds since the start of the run."""


class Recorder:
    """A monitor that records the calls that it forwards.

    Args:
        session: the monitor that checks the program.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._calls: list[_Call] = []
        self._n_views = 0
        self._n_launches = 0
        self._left_out = 0
        self._limit = [MAX_CALLS]  # in a list, so that the closures below can read it without an attribute lookup
        self._is_timed = True
        self._after: dict[AllocationId, _Call] = {}  # live allocations made after recording stopped
        self._latest: dict[StreamId, tuple[int, str]] = {}  # stream -> number and operator of its last launch
        self._interval_of: dict[int, int] = {}  # launch -> interval
        self._intervals: dict[int, tuple[int, int]] = {}
        self._pid = os.getpid()

    @property
    def names(self) -> Names:
        """The names that the program gives to its objects."""
        return self._session.collector.names

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)
        method: Callable[..., Any] = getattr(self._session, name)
        wrapper = method
        if name == "launch":
            wrapper = self._wrap_launch(method)
        elif name in _LOGGED:
            wrapper = self._wrap(name, method)
        setattr(self, name, wrapper)
        return wrapper

    def _wrap_launch(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """Return the wrapper of the most frequent call, optimized for speed."""
        calls, latest, limit = self._calls, self._latest, self._limit

        @wraps(method)
        def launch(
            stream: StreamId, operator: str, accesses: Accesses, site: SiteId, context: Context | None = None
        ) -> Any:
            if len(calls) < limit[0]:
                calls.append(("launch", (stream, operator, accesses, site), _NO_KEYWORDS))
                latest[stream] = (self._n_launches, operator)
                self._n_launches += 1
            else:
                self._left_out += 1
            return method(stream, operator, accesses, site, context)

        return launch

    def _wrap(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        calls, limit = self._calls, self._limit
        is_work = name in _WORK

        @wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            if len(calls) < limit[0]:
                calls.append((name, args, kwargs))
                if is_work:
                    self._latest[args[1]] = (self._n_launches, name)
                    self._n_launches += 1
            elif is_work:
                self._left_out += 1
            return method(*args, **kwargs)

        return call

    def view(
        self,
        start: int,
        sizes: Sequence[int],
        strides: Sequence[int],
        item_size: int,
        dtype: str,
        *,
        is_partial: bool = False,
    ) -> ViewId:
        """See `Monitor`."""
        view = self._session.view(start, tuple(sizes), tuple(strides), item_size, dtype, is_partial=is_partial)
        if view == self._n_views:
            self._n_views += 1
            self._calls.append(("view", (start, sizes, strides, item_size, dtype), {}))
        return view

    def stream(self, stream: StreamId, device: int, handle: int, site: SiteId, *, legacy: bool, blocking: bool) -> None:
        """See `Monitor`."""
        self._calls.append(("stream", (stream, device, handle, site), {"legacy": legacy, "blocking": blocking}))
        self._session.stream(stream, device, handle, site, legacy=legacy, blocking=blocking)

    def allocate(self, allocation: AllocationId, home: StreamId, n_bytes: int, pool: int, site: SiteId) -> None:
        """See `Monitor`."""
        call: _Call = ("allocate", (allocation, home, n_bytes, pool, site), _NO_KEYWORDS)
        if len(self._calls) < self._limit[0]:
            self._calls.append(call)
        else:
            self._after[allocation] = call
        self._session.allocate(allocation, home, n_bytes, pool, site)

    def free(self, allocation: AllocationId, site: SiteId) -> None:
        """See `Monitor`."""
        if self._after.pop(allocation, None) is None:
            self._calls.append(("free", (allocation, site), _NO_KEYWORDS))
        self._session.free(allocation, site)

    def launches_elided(self, stream: StreamId, count: int, site: SiteId) -> None:
        """See `Monitor`."""
        if len(self._calls) < self._limit[0]:
            self._calls.append(("launches_elided", (stream, count, site), _NO_KEYWORDS))
        else:
            self._left_out += count
        self._session.launches_elided(stream, count, site)

    def untimed(self) -> None:
        """See `Monitor`. Later calls are not recorded."""
        self._is_timed = False
        self._limit[0] = 0
        self._session.untimed()

    def forget(self) -> None:
        """Start over for another program: keep streams, views and live memory, but no work."""
        freed = {args[0] for name, args, _ in self._calls if name == "free"}
        self._calls[:] = [
            call
            for call in self._calls
            if call[0] in {"stream", "view"} or (call[0] == "allocate" and call[1][0] not in freed)
        ]
        self._calls += self._after.values()
        self._after.clear()
        self._limit[0], self._is_timed = MAX_CALLS, True
        self._n_launches = self._left_out = 0
        self._latest.clear()
        self._interval_of.clear()
        self._intervals.clear()

    # -- times

    def timed(self, interval: int, stream: StreamId, operator: str) -> None:
        """See `Monitor`."""
        self._session.timed(interval, stream, operator)
        latest = self._latest.get(stream)
        if (
            latest is not None
            and latest[1] in {operator, _SHOWN_AS.get(operator)}
            and latest[0] not in self._interval_of
        ):
            self._interval_of[latest[0]] = interval

    def times(self, intervals: Sequence[Interval]) -> None:
        """See `Monitor`."""
        self._session.times(intervals)
        for interval, began, nanoseconds in intervals:
            self._intervals[interval] = (began, nanoseconds)

    # -- the graph

    def graph(self) -> Graph:
        """Return the order graph of all calls so far."""
        builder = Builder()
        for name, args, kwargs in self._calls:
            getattr(builder, name)(*args, **kwargs)
        graph = builder.graph
        graph.left_out = self._left_out
        graph.is_timing_complete = self._is_timed
        self._add_times(graph, builder.launches)
        return graph

    def _add_times(self, graph: Graph, launches: list[int]) -> None:
        """Replace the times of the cost model with measured ones."""
        by_stream: dict[StreamId, list[tuple[int, int, int]]] = {}
        for launch, interval in self._interval_of.items():
            measured = self._intervals.get(interval)
            op = launches[launch] if launch < len(launches) else NO_OP
            if measured is not None and op != NO_OP:
                by_stream.setdefault(graph.ops[op].stream, []).append((op, *measured))
        n_jumps = 0
        for found in by_stream.values():
            wrong = find_jumps([began if nanoseconds >= 0 else -1 for _, began, nanoseconds in found])
            n_jumps += len(wrong)
            for position, (op, began, nanoseconds) in enumerate(found):
                if position not in wrong:
                    graph.ops[op] = graph.ops[op]._replace(nanoseconds=nanoseconds, began=began)
                    graph.measured += 1
        if n_jumps:
            graph.notes[f"{n_jumps} measured times went backwards because the clock jumped, and were not used"] = None
