"""The work since a clock was read first: a counter that is raised takes no time that a clock could miss."""

from syncheck.hb.ids import NamedKind, StreamId
from syncheck.sanitizer.session import Session

QUICK = frozenset({"aten::add_", "aten::sub_", "aten::fill_", "aten::zero_"})
"""Operators on one tensor alone that count or reset."""
_MOST_QUICK = 2
"""Operators that take no time, together: more of them do."""


class RecentWork:
    """The operators that may still run on each stream.

    Args:
        session: knows which streams have pending work.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._quick: dict[StreamId, list[bool]] | None = None

    def begin(self) -> None:
        """A clock has been read: note operators from now on."""
        self._quick = self._quick or {}

    def note(self, stream: StreamId, *, is_quick: bool) -> None:
        """An operator is submitted; `is_quick`: it takes next to no time."""
        if self._quick is None:
            return
        if not self._is_busy(stream):
            self._quick[stream] = []
        self._quick.setdefault(stream, []).append(is_quick)

    def is_next_to_nothing(self) -> bool:
        """Return whether work is pending, and all of it takes no time: a counter, say."""
        pending = [ops for stream, ops in (self._quick or {}).items() if self._is_busy(stream)]
        return bool(pending) and all(len(ops) <= _MOST_QUICK and all(ops) for ops in pending)

    def _is_busy(self, stream: StreamId) -> bool:
        return self._session.is_pending(NamedKind.STREAM, stream)
