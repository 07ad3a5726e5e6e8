"""Operations that are captured into CUDA graphs and do not run when they are launched."""

from dataclasses import dataclass, field

from syncheck.hb.ids import Access, Accesses, EventId, GraphId, StreamId
from syncheck.overlap.model import Operation


@dataclass(slots=True)
class _Captured:
    operations: list[Operation] = field(default_factory=list)
    accesses: dict[Access, None] = field(default_factory=dict)


class Captures:
    """The captures of a program. The order within a graph is fixed by the graph and is not analyzed."""

    def __init__(self) -> None:
        self._graphs: dict[GraphId, _Captured] = {}
        self._current: _Captured | None = None
        self._streams: set[StreamId] = set()
        self._events: set[EventId] = set()

    def begin(self, graph: GraphId, stream: StreamId) -> None:
        """Begin a capture on a stream."""
        self._current = self._graphs.setdefault(graph, _Captured())
        self._streams, self._events = {stream}, set()

    def end(self) -> None:
        """End the capture."""
        self._current = None
        self._streams = set()

    def is_capturing(self, stream: StreamId) -> bool:
        """Return whether work submitted to a stream is captured."""
        return stream in self._streams

    def launch(self, operation: Operation, accesses: Accesses) -> None:
        """Add an operation to the capture."""
        assert self._current is not None, "a stream is taken only during a capture"
        self._current.operations.append(operation)
        self._current.accesses.update(dict.fromkeys(accesses))

    def record(self, event: EventId, stream: StreamId) -> bool:
        """Record an event, and return whether the record is captured."""
        if stream in self._streams:
            self._events.add(event)
            return True
        self._events.discard(event)
        return False

    def wait(self, event: EventId, stream: StreamId) -> bool:
        """Record that a stream waits for an event. If that is captured, add it to the capture and return True."""
        if self._current is None or event not in self._events:
            return False
        self._streams.add(stream)
        return True

    def wait_stream(self, stream: StreamId, other: StreamId) -> bool:
        """Record that a stream waits for another one. If that is captured, add it to the capture and return True."""
        if other not in self._streams:
            return False
        self._streams.add(stream)
        return True

    def captured(self, graph: GraphId) -> tuple[list[Operation], list[Access]]:
        """Return the operations of a graph and their distinct accesses."""
        captured = self._graphs.get(graph, _Captured())
        return captured.operations, list(captured.accesses)
