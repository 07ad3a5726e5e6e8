"""The objects that exist at some point of a run, as calls that declare them; later files of a trace start with these.

The calls do not include earlier work: a session that receives them and then `Session.reset` treats it as complete.
"""

from collections.abc import Callable, Iterator
from typing import Any

from syncheck.hb.ids import UNKNOWN_SITE, AllocationId, EventId, NamedKind, StreamId
from syncheck.sanitizer.graphs import GRAPH_POOLS
from syncheck.sanitizer.messages import Names
from syncheck.sanitizer.session import Session

Call = tuple[str, tuple[Any, ...], dict[str, Any]]
"""(name of a method of `Monitor`, arguments, keyword arguments)."""


class LiveState:
    """Tracks the calls that create and destroy objects, and keeps those that declare the existing ones.

    Attributes:
        is_capturing: whether a graph is being captured.

    Args:
        session: receives the same calls, each before this object does.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self.is_capturing = False
        self._definitions: list[Call] = []  # device type, streams and views; their order determines the ids
        self._n_views = 0
        self._memory: dict[AllocationId, Call] = {}
        self._protected: dict[AllocationId, dict[StreamId, Call]] = {}  # by record_stream
        self._events: dict[EventId, Call] = {}
        self._records: dict[EventId, Call] = {}  # the latest of each
        self._host: Call | None = None  # the current thread, once there are several
        self._newest_host: Call | None = None
        self._followers: dict[str, Callable[[Call, Any], None]] = {
            "device_type": self._defined, "stream": self._defined, "view": self._viewed, "host": self._switched,
            "allocate": self._allocated, "free": self._freed, "record_stream": self._stream_recorded,
            "event": self._event_created, "drop_event": self._event_dropped, "record": self._recorded,
            "capture_begin": self._capture_began, "capture_end": self._capture_ended,
        }  # fmt: skip

    def follower(self, name: str) -> Callable[[Call, Any], None] | None:
        """Return the handler for calls of a method and their results; None for a method that declares nothing."""
        return self._followers.get(name)

    # -- handlers of calls

    def _defined(self, call: Call, _: Any) -> None:
        self._definitions.append(call)

    def _viewed(self, call: Call, result: Any) -> None:
        if result == self._n_views:  # a new one
            self._n_views += 1
            self._definitions.append(call)

    def _switched(self, call: Call, _: Any) -> None:
        self._host = call
        if self._newest_host is None or call[1][0] > self._newest_host[1][0]:
            self._newest_host = call

    def _allocated(self, call: Call, _: Any) -> None:
        name, (allocation, home, n_bytes, pool, site), keywords = call
        if self.is_capturing and self._session.capturing(home):
            pool = GRAPH_POOLS
        self._memory[allocation] = (name, (allocation, home, n_bytes, pool, site), keywords)

    def _freed(self, call: Call, _: Any) -> None:
        self._memory.pop(call[1][0], None)
        self._protected.pop(call[1][0], None)

    def _stream_recorded(self, call: Call, _: Any) -> None:
        allocation, _, stream, _ = call[1]
        self._protected.setdefault(allocation, {}).setdefault(stream, call)

    def _event_created(self, call: Call, _: Any) -> None:
        self._events[call[1][0]] = call
        self._records.pop(call[1][0], None)

    def _event_dropped(self, call: Call, _: Any) -> None:
        self._events.pop(call[1][0], None)
        self._records.pop(call[1][0], None)

    def _recorded(self, call: Call, _: Any) -> None:
        event, stream = call[1][:2]
        if not (self.is_capturing and self._session.capturing(stream)):  # otherwise it is recorded only in the graph
            self._records[event] = call

    def _capture_began(self, _: Call, __: Any) -> None:
        self.is_capturing = True

    def _capture_ended(self, _: Call, __: Any) -> None:
        self.is_capturing = False

    # -- declaration of existing objects

    def calls(self) -> Iterator[Call]:
        """Yield the calls that declare all existing objects."""
        yield from self._definitions
        for allocation, call in self._memory.items():
            yield call
            yield from self._protected.get(allocation, {}).values()
        for event, call in self._events.items():
            yield call
            if event in self._records:
                yield self._records[event]
        yield from self._timed_work()
        yield from self._warmed_up()
        yield from self._described()
        yield from self._named()
        if self._host is not None and self._newest_host is not None:
            yield self._newest_host  # so that older threads do not count as new and unordered
            yield self._host

    def _timed_work(self) -> Iterator[Call]:
        """Yield work after each timing event, because it is no longer known whether there was any."""
        timed = {event for event, (_, _, keywords) in self._events.items() if keywords.get("timing")}
        streams = {call[1][1] for event, call in self._records.items() if event in timed}
        for stream in sorted(streams):
            yield "launches_elided", (stream, 1, UNKNOWN_SITE), {}

    def _warmed_up(self) -> Iterator[Call]:
        """Yield launches of the operators that have been warmed up for captures."""
        first = next((call[1][0] for call in self._definitions if call[0] == "stream"), None)
        if first is not None:
            for operator in sorted(self._session.warm_operators):
                yield "launch", (first, operator, (), UNKNOWN_SITE), {}

    def _described(self) -> Iterator[Call]:
        names: Names = self._session.collector.names
        for allocation, view in names.shown.items():
            if allocation in self._memory:
                yield "describe_allocation", (allocation, view), {}
        for (allocation, view), text in names.parts.items():
            if allocation in self._memory:
                yield "name_view", (allocation, view, text), {}

    def _named(self) -> Iterator[Call]:
        names: Names = self._session.collector.names
        for (kind, ident), text in names.given.items():
            if self._exists(kind, ident):
                yield "name", (kind, ident, text), {}
        for (kind, ident), texts in names.seen_at.items():
            if self._exists(kind, ident):
                for (path, line), text in texts.items():
                    yield "name_at", (kind, ident, text, path, line), {}

    def _exists(self, kind: NamedKind, ident: int) -> bool:
        if kind is NamedKind.ALLOCATION:
            return ident in self._memory
        return kind is not NamedKind.EVENT or ident in self._events
