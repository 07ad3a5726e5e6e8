"""The work since a clock was read first: a counter that is raised takes no time that a clock could miss."""

from syncheck.hb.ids import NamedKind, SiteId, StreamId
from syncheck.sanitizer.session import Session

QUICK = frozenset({"aten::add_", "aten::sub_", "aten::fill_", "aten::zero_"})
"""Operators on one tensor alone that count or reset."""
_MOST_QUICK = 2
"""Operators that take no time, together: more of them do."""
_TIMED = "what timing events stand around"
_FILLING = frozenset({"aten::zeros", "aten::ones", "aten::full"})
"""Operators that make what a collective writes to."""


class RecentWork:
    """The operators that may still run on each stream.

    Attributes:
        ends: readings of a clock that miss one collective, behind a wait for all that came before: that of a few
            statistics, most often.

    Args:
        session: knows which streams have pending work.
    """

    def __init__(self, session: Session) -> None:
        self.ends: set[SiteId] = set()
        self._session = session
        self._pending: dict[StreamId, list[tuple[str, bool]]] | None = None
        self._waited: set[StreamId] = set()  # since the last reading
        self._n_noted: dict[StreamId, int] = {}
        self._n_timed: dict[StreamId, int] = {}
        self._at_events: dict[StreamId, int] = {}  # how much was noted when a timing event was recorded last

    def begin(self, site: SiteId) -> None:
        """A clock has been read: note operators from now on."""
        self._pending = self._pending or {}
        if self._is_end():
            self.ends.add(site)
        self._waited.clear()

    def note(self, stream: StreamId, operator: str, *, is_quick: bool) -> None:
        """An operator is submitted; `is_quick`: it takes next to no time."""
        self._n_noted[stream] = self._n_noted.get(stream, 0) + 1
        if self._pending is None:
            return
        if not self._is_busy(stream):
            if self._pending.get(stream):
                self._waited.add(stream)
            self._pending[stream] = []
        self._pending.setdefault(stream, []).append((operator, is_quick))

    def note_timed(self, stream: StreamId) -> None:
        """Work is taken to be submitted that is timed and is not seen: a clock that misses it misses nothing known."""
        self._n_timed[stream] = self._n_timed.get(stream, 0) + 1
        self.note(stream, _TIMED, is_quick=True)

    def is_only_taken(self, stream: StreamId) -> bool:
        """Return whether all work of a stream is such as is not seen."""
        return 0 < self._n_timed.get(stream, 0) == self._n_noted.get(stream, 0)

    def note_event(self, stream: StreamId) -> None:
        """A timing event is recorded."""
        self._at_events[stream] = self._n_noted.get(stream, 0)

    def is_at_event(self, stream: StreamId) -> bool:
        """Return whether nothing was submitted since a timing event was recorded."""
        return self._at_events.get(stream) == self._n_noted.get(stream, 0)

    def drop(self, stream: StreamId) -> None:
        """The operator submitted last has made the host wait for nearly all of it."""
        if self._pending and self._pending.get(stream):
            self._pending[stream].pop()

    def flush(self) -> None:
        """The allocator gives memory back to CUDA, which waits for the device: no clock misses what was before.

        Source: c10/cuda/CUDACachingAllocator.cpp, `release_cached_blocks`, and `cudaFree` of the CUDA Runtime API.
        """
        if self._pending is not None:
            self._pending = {stream: [] for stream in self._pending}

    def is_next_to_nothing(self) -> bool:
        """Return whether work is pending, and all of it takes no time: a counter, say."""
        busy = [ops for stream, ops in (self._pending or {}).items() if self._is_busy(stream)]
        pending = [[op for op in ops if op[0] != _TIMED] for ops in busy]
        return bool(pending) and all(len(ops) <= _MOST_QUICK and all(quick for _, quick in ops) for ops in pending)

    def _is_end(self) -> bool:
        busy = {stream: ops for stream, ops in (self._pending or {}).items() if self._is_busy(stream)}
        left = [operator for ops in busy.values() for operator, is_quick in ops if not is_quick]
        work = [operator for operator in left if operator not in _FILLING]
        return len(work) == 1 and work[0].startswith("c10d::") and busy.keys() <= self._waited

    def _is_busy(self, stream: StreamId) -> bool:
        return self._session.is_pending(NamedKind.STREAM, stream)
