"""What is captured into CUDA graphs, and does not run when it is launched."""

from dataclasses import dataclass, field

from syncheck.hb.ids import Access, Accesses, EventId, GraphId, StreamId
from syncheck.overlap.model import Operation


@dataclass(slots=True)
class _Captured:
    operations: list[Operation] = field(default_factory=list)
    accesses: dict[Access, None] = field(default_factory=dict)


class Captures:
    """The captures of a program; the order inside of a graph is that of the graph, and is not looked at."""

    def __init__(self) -> None:
        self._graphs: dict[GraphId, _Captured] = {}
        self._current: _Captured | None = None
        self._streams: set[StreamId] = set()
        self._events: set[EventId] = set()

    def begin(self, graph: GraphId, stream: StreamId) -> None:
        """A capture begins on a stream."""
        self._current = self._graphs.setdefault(graph, _Captured())
        self._streams, self._events = {stream}, set()

    def end(self) -> None:
        """The capture ends."""
        self._current = None
        self._streams = set()

    def takes(self, stream: StreamId) -> bool:
        """Return whether what is given to a stream is captured."""
        return stream in self._streams

    def launch(self, operation: Operation, accesses: Accesses) -> None:
        """An operation is captured."""
        assert self._current is not None, "a stream is taken only during a capture"
        self._current.operations.append(operation)
        self._current.accesses.update(dict.fromkeys(accesses))

    def record(self, event: EventId, stream: StreamId) -> bool:
        """An event is recorded; return whether that is captured."""
        if stream in self._streams:
            self._events.add(event)
            return True
        self._events.discard(event)
        return False

    def wait(self, event: EventId, stream: StreamId) -> bool:
        """A stream waits for an event; return whether that is captured: then so is what the stream is given."""
        if self._current is None or event not in self._events:
            return False
        self._streams.add(stream)
        return True

    def wait_stream(self, stream: StreamId, other: StreamId) -> bool:
        """A stream waits for another; return whether that is captured."""
        if other not in self._streams:
            return False
        self._streams.add(stream)
        return True

    def captured(self, graph: GraphId) -> tuple[list[Operation], list[Access]]:
        """Return the operations of a graph, and what they read and write, each once."""
        captured = self._graphs.get(graph, _Captured())
        return captured.operations, list(captured.accesses)
