"""Owners of shared memory: streams that come after all other uses of it and so have it to themselves again."""

from collections.abc import Callable, Container

from syncheck.cuda.streams import NOT_SOLE
from syncheck.hb.ids import Accesses, AllocationId, StreamId
from syncheck.sanitizer.monitor import Monitor


class Owners:
    """The streams that have shared memory to themselves again. Accesses by the owner cannot race.

    Attributes:
        on_change: called with memory and its new owner, NOT_SOLE if there is none; None disables the tracking.
        on_clear: called when all owners are dropped.
    """

    def __init__(self) -> None:
        self._owners: dict[AllocationId, StreamId] = {}
        self.on_change: Callable[[AllocationId, StreamId], None] | None = None
        self.on_clear: Callable[[], None] = lambda: None

    def __getitem__(self, allocation: AllocationId) -> StreamId:
        return self._owners.get(allocation, NOT_SOLE)

    def add(self, monitor: Monitor, stream: StreamId, accesses: Accesses, private: Container[AllocationId]) -> None:
        """Note which memory a stream has to itself again.

        Args:
            monitor: the monitor, which has received the accesses.
            stream: the stream.
            accesses: the stream's latest accesses.
            private: memory that only one stream has ever used.
        """
        if self.on_change is None:
            return
        for allocation, _, _ in accesses:
            is_known = allocation in private or allocation in self._owners
            if not is_known and monitor.is_ordered_after_all(stream, allocation):
                self._owners[allocation] = stream
                self.on_change(allocation, stream)

    def use(self, stream: StreamId, allocation: AllocationId) -> None:
        """Note a use of shared memory by a stream, which ends the ownership of any other stream."""
        if self._owners.get(allocation) != stream:
            self._lose(allocation)

    def forget(self, allocation: AllocationId) -> None:
        """Drop freed memory."""
        self._owners.pop(allocation, None)

    def clear(self) -> None:
        """Drop all owners, because memory may be used in ways that are not seen here."""
        for allocation in list(self._owners):
            self._lose(allocation)
        self.on_clear()

    def _lose(self, allocation: AllocationId) -> None:
        self._owners.pop(allocation, None)
        if self.on_change is not None:
            self.on_change(allocation, NOT_SOLE)
