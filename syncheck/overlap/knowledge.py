"""Which operations each stream and the host know to have ended, and which edge made them know it."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from syncheck.hb.clock import HOST
from syncheck.hb.ids import StreamId
from syncheck.overlap.ids import EdgeId, OpId

Snapshot = dict[StreamId, OpId]
"""Stream -> its latest operation that is known."""

_NEVER = 1 << 62
_BY_HOST = -1
"""Stands for an edge: a stream knows what the host knew when it was given work."""


class _Gained(NamedTuple):
    """From some edge on, the operations of a stream up to `op` are known.

    Attributes:
        by: the stream that the edge waits for.
        since: the number of operations of all streams that were submitted before.
    """

    op: OpId
    edge: EdgeId
    by: StreamId
    since: OpId


class Knowledge:
    """What is known, by actor: the host is actor 0."""

    def __init__(self) -> None:
        self._known: dict[StreamId, Snapshot] = {HOST: {}}
        self._gained: dict[tuple[StreamId, StreamId], list[_Gained]] = {}
        self._host_version = 0
        self._seen_host: dict[StreamId, int] = {}
        self._n_ops = 0

    def submit(self, stream: StreamId) -> Snapshot:
        """Return what a stream knows when it is given something now, not to be kept."""
        known = self._known.setdefault(stream, {})
        if self._seen_host.get(stream) != self._host_version:
            self._seen_host[stream] = self._host_version
            self._join(stream, self._known[HOST], _BY_HOST, HOST)
        return known

    def ran(self, stream: StreamId, op: OpId) -> None:
        """A stream was given an operation."""
        self.submit(stream)[stream] = op
        self._n_ops = op + 1

    def acquire(self, actor: StreamId, snapshot: Snapshot, edge: EdgeId, by: StreamId) -> bool:
        """An edge makes an actor know what a stream knew; return whether that is new."""
        if actor != HOST:
            self.submit(actor)
        is_new = self._join(actor, snapshot, edge, by)
        if is_new and actor == HOST:
            self._host_version += 1
        return is_new

    def _join(self, actor: StreamId, snapshot: Snapshot, edge: EdgeId, by: StreamId) -> bool:
        known = self._known[actor]
        news = [(stream, op) for stream, op in snapshot.items() if known.get(stream, -1) < op and stream != actor]
        for stream, op in news:
            known[stream] = op
            self._gained.setdefault((actor, stream), []).append(_Gained(op, edge, by, self._n_ops))
        return bool(news)

    def knows(self, actor: StreamId, stream: StreamId, op: OpId) -> bool:
        """Return whether an actor knows an operation of a stream."""
        known = self._known[HOST] if actor == HOST else self.submit(actor)
        return actor == stream or known.get(stream, -1) >= op

    def chain(self, actor: StreamId, stream: StreamId, op: OpId) -> Iterator[EdgeId]:
        """Yield the edges by which an actor first came to know an operation of another stream, the latest first.

        Without any other edge the actor would know it all the same; nothing is yielded where it does not.
        """
        while actor != stream:
            gained = self._gained.get((actor, stream), ())
            at = bisect_left(gained, op, key=lambda entry: entry.op)
            if at == len(gained):
                return
            entry = gained[at]
            if entry.edge == _BY_HOST:
                actor = HOST
                continue
            yield entry.edge
            actor = entry.by

    def around(self, stream: StreamId, other: StreamId, ops: Iterable[OpId]) -> Iterator[tuple[OpId, OpId]]:
        """Yield what is in order with operations of a stream, which ascend, on another one.

        Yields:
            The last operation that it comes after, -1 for none; from which number on operations come after it,
            a huge one if none do.
        """
        before, after = self._gained.get((stream, other), ()), self._gained.get((other, stream), ())
        known, i, j = -1, 0, 0
        for op in ops:
            while i < len(before) and before[i].since <= op:
                known = before[i].op
                i += 1
            while j < len(after) and after[j].op < op:
                j += 1
            yield known, after[j].since if j < len(after) else _NEVER
