"""What streams have waited for, by the age of memory: whether a stream comes after the work that made a tensor."""

from syncheck.hb.ids import EventId, StreamId
from syncheck.lint.interp.values import Tensor


class Joins:
    """The waits of streams for others, each up to the number of what was made last before it."""

    def __init__(self) -> None:
        self._recorded: dict[EventId, tuple[StreamId, int]] = {}
        self._waited: dict[tuple[StreamId, StreamId], int] = {}

    def note_record(self, event: EventId, stream: StreamId, newest: int) -> None:
        """An event is recorded on a stream; `newest`: the number of what was made last."""
        self._recorded[event] = stream, newest

    def note_wait(self, waiter: StreamId, event: EventId) -> None:
        """A stream waits for an event."""
        stream, newest = self._recorded.get(event, (waiter, 0))
        self.note_wait_stream(waiter, stream, newest)

    def note_wait_stream(self, waiter: StreamId, awaited: StreamId, newest: int) -> None:
        """A stream waits for all of another one; `newest`: see `note_record`."""
        pair = waiter, awaited
        self._waited[pair] = max(newest, self._waited.get(pair, 0))

    def cover(self, tensor: Tensor, stream: StreamId) -> bool:
        """Return whether a stream has waited for another one that had made a tensor by then."""
        return bool(tensor.block.ident) and self._waited.get((stream, tensor.stream), 0) >= tensor.block.ident
