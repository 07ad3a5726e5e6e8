"""Waits between streams, by the age of memory: whether a stream is ordered after the work that created a tensor."""

from syncheck.hb.ids import EventId, StreamId
from syncheck.lint.interp.values import Tensor


class Joins:
    """The waits of streams for each other, each with the newest id at the time."""

    def __init__(self) -> None:
        self._recorded: dict[EventId, tuple[StreamId, int]] = {}
        self._newest: dict[StreamId, int] = {}
        self._waited: dict[tuple[StreamId, StreamId], int] = {}

    def note_record(self, event: EventId, stream: StreamId, newest: int) -> None:
        """Note that an event is recorded on a stream; `newest`: the newest id at that time."""
        self._recorded[event] = stream, newest
        self._newest[stream] = newest

    def note_wait(self, waiter: StreamId, event: EventId) -> None:
        """Note that a stream waits for an event."""
        stream, newest = self._recorded.get(event, (waiter, 0))
        self.note_wait_stream(waiter, stream, newest)

    def note_wait_stream(self, waiter: StreamId, awaited: StreamId, newest: int) -> None:
        """Note that a stream waits for all work of another one; `newest`: see `note_record`."""
        pair = waiter, awaited
        self._waited[pair] = max(newest, self._waited.get(pair, 0))

    def is_recorded_after(self, stream: StreamId, tensor: Tensor) -> bool:
        """Return whether an event was recorded on a stream after a tensor was created."""
        return self._newest.get(stream, 0) >= tensor.block.ident

    def cover(self, tensor: Tensor, stream: StreamId) -> bool:
        """Return whether a stream has waited for the stream that created a tensor, after the tensor was created."""
        return bool(tensor.block.ident) and self._waited.get((stream, tensor.stream), 0) >= tensor.block.ident
