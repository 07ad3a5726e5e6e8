"""For each stream and the host: the operations known to have ended, and the edges that established it."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from syncheck.hb.clock import HOST
from syncheck.hb.ids import StreamId
from syncheck.overlap.ids import EdgeId, OpId

Snapshot = dict[StreamId, OpId]
"""Stream -> its latest operation that is known to have ended."""

_NEVER = 1 << 62
_VIA_HOST = -1
"""Pseudo-edge: a stream knows what the host knew when it submitted work to the stream."""


class _Gained(NamedTuple):
    """From some edge on, the operations of a stream up to `op` are known to have ended.

    Attributes:
        op: the last of these operations.
        edge: the edge.
        by: the stream that the edge waits for.
        since: the number of operations that had been submitted to all streams before.
    """

    op: OpId
    edge: EdgeId
    by: StreamId
    since: OpId


class Knowledge:
    """The operations known to have ended, by actor. The host is actor 0."""

    def __init__(self) -> None:
        self._known: dict[StreamId, Snapshot] = {HOST: {}}
        self._gained: dict[tuple[StreamId, StreamId], list[_Gained]] = {}
        self._host_version = 0
        self._seen_host: dict[StreamId, int] = {}
        self._n_ops = 0

    def submit(self, stream: StreamId) -> Snapshot:
        """Return the operations known to a stream when work is submitted to it now. Do not keep the result."""
        known = self._known.setdefault(stream, {})
        if self._seen_host.get(stream) != self._host_version:
            self._seen_host[stream] = self._host_version
            self._join(stream, self._known[HOST], _VIA_HOST, HOST)
        return known

    def ran(self, stream: StreamId, op: OpId) -> None:
        """Record that an operation was submitted to a stream."""
        self.submit(stream)[stream] = op
        self._n_ops = op + 1

    def acquire(self, actor: StreamId, snapshot: Snapshot, edge: EdgeId, by: StreamId) -> bool:
        """Add to an actor's knowledge what another stream knew, by way of an edge. Return whether any of it is new."""
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
        """Return whether an operation of a stream is known to an actor to have ended."""
        known = self._known[HOST] if actor == HOST else self.submit(actor)
        return actor == stream or known.get(stream, -1) >= op

    def chain(self, actor: StreamId, stream: StreamId, op: OpId) -> Iterator[EdgeId]:
        """Yield the edges through which an operation of another stream first became known to an actor, latest first.

        The actor would know it even without any other edge. Yields nothing if the operation is not known.
        """
        while actor != stream:
            gained = self._gained.get((actor, stream), ())
            at = bisect_left(gained, op, key=lambda entry: entry.op)
            if at == len(gained):
                return
            entry = gained[at]
            if entry.edge == _VIA_HOST:
                actor = HOST
                continue
            yield entry.edge
            actor = entry.by

    def order_bounds(self, stream: StreamId, other: StreamId, ops: Iterable[OpId]) -> Iterator[tuple[OpId, OpId]]:
        """Yield the bounds of order with another stream for operations of a stream, given in ascending order.

        Yields:
            For each operation: the last operation of the other stream that precedes it, -1 for none; and the number
            from which on operations of the other stream follow it, a huge number for none.
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
