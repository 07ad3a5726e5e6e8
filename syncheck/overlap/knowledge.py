"""Which operations each stream and the host know to have ended, and which edge made them know it."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
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

    def known_at(self, actor: StreamId, stream: StreamId, moment: OpId) -> OpId:
        """Return the last operation of another stream that an actor's operation `moment` comes after; -1 for none."""
        gained = self._gained.get((actor, stream), ())
        at = bisect_right(gained, moment, key=lambda entry: entry.since)
        return gained[at - 1].op if at else -1

    def known_since(self, actor: StreamId, stream: StreamId, op: OpId) -> OpId:
        """Return from which number on operations of an actor come after one of another stream; a huge one if none."""
        gained = self._gained.get((actor, stream), ())
        at = bisect_left(gained, op, key=lambda entry: entry.op)
        return gained[at].since if at < len(gained) else _NEVER
