"""The critical path in order: runs of work, separated by the waits of the next run."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from syncheck.hb.clock import HOST
from syncheck.hb.ids import StreamId
from syncheck.overlap.ids import EdgeId, OpId
from syncheck.overlap.model import Graph
from syncheck.overlap.schedule import Schedule

_NONE = -1
_MIN_ORDER_FRACTION = 0.05
"""Minimum cost of a stream's order, as a fraction of the total time, for a link of its own."""


class LinkKind(StrEnum):
    """Kind of a link of the critical path."""

    WORK = "work"
    WAIT = "wait"
    ORDER = "stream order"
    LAUNCH = "launch"
    LEFT_OUT = "left out"


@dataclass(frozen=True, slots=True)
class Link:
    """A part of the critical path. Times are in nanoseconds.

    Attributes:
        kind: WORK for operations of one stream; WAIT for an edge; ORDER for the order of a stream, where nothing needs
            it and it costs much; LAUNCH for time in which only the host works; LEFT_OUT for links that are not shown.
        nanoseconds: for work, its duration; for an edge, how long the waiter was idle; for the order of a stream, how
            much earlier the next operation could have started.
        stream: the stream, for work and for a stream's order.
        first, last, longest: operations, for work; for a stream's order, `first` and `last` are the operations before
        and after it.
        count: number of operations, for work; number of links that are not shown.
        edge: the edge of a wait.
    """

    kind: LinkKind
    nanoseconds: int
    stream: StreamId = HOST
    first: OpId = _NONE
    last: OpId = _NONE
    longest: OpId = _NONE
    count: int = 0
    edge: EdgeId = _NONE


def links(graph: Graph, schedule: Schedule, path: list[int], most: int) -> tuple[Link, ...]:
    """Return the critical path from start to end.

    Args:
        graph: the order graph.
        schedule: when each operation ran.
        path: the nodes of the critical path.
        most: the maximum number of links. If there are more, the longest are kept, with LEFT_OUT in place of the
            others.
    """
    return _shortened([*_links(graph, schedule, path)], most)


def _links(graph: Graph, schedule: Schedule, path: list[int]) -> Iterator[Link]:
    work: list[OpId] = []
    for node in path:
        op, edge, before = schedule.node_op[node], schedule.node_edge[node], schedule.node_before[node]
        between = _before(graph, schedule, op, before) if op >= 0 else _wait(schedule, edge)
        if between is not None:
            yield from _work(graph, work)
            work = []
            yield between
        if op >= 0:
            work.append(op)
    yield from _work(graph, work)


def _wait(schedule: Schedule, edge: EdgeId) -> Link:
    return Link(LinkKind.WAIT, schedule.stalls.get(edge, 0), edge=edge)


def _before(graph: Graph, schedule: Schedule, op: OpId, before: int) -> Link | None:
    """Return the link between an operation and the previous node, or None if there is none worth showing."""
    launching = schedule.starts[op] - (schedule.node_time[before] if before >= 0 else 0)
    if launching > 0:
        return Link(LinkKind.LAUNCH, launching)
    previous = schedule.node_op[before] if before >= 0 else _NONE
    needed = graph.depends.get(op, ())
    if previous < 0 or previous in needed:
        return None
    ready = max((schedule.ends[other] for other in needed), default=0)
    earlier = schedule.starts[op] - max(ready, schedule.starts[previous])
    if earlier <= _MIN_ORDER_FRACTION * schedule.makespan:
        return None
    return Link(LinkKind.ORDER, earlier, graph.ops[op].stream, previous, op)


def _work(graph: Graph, ops: list[OpId]) -> Iterator[Link]:
    if ops:
        longest = max(ops, key=lambda op: graph.ops[op].nanoseconds)
        nanoseconds = sum(graph.ops[op].nanoseconds for op in ops)
        yield Link(LinkKind.WORK, nanoseconds, graph.ops[ops[0]].stream, ops[0], ops[-1], longest, len(ops))


def _shortened(found: list[Link], most: int) -> tuple[Link, ...]:
    """Keep the longest links in order, and replace each run of other links by one link."""
    if len(found) <= most:
        return tuple(found)
    kept = set(sorted(range(len(found)), key=lambda number: -found[number].nanoseconds)[:most])
    shown: list[Link] = []
    for number, link in enumerate(found):
        if number in kept:
            shown.append(link)
            continue
        left_out = shown.pop() if shown and shown[-1].kind is LinkKind.LEFT_OUT else Link(LinkKind.LEFT_OUT, 0)
        nanoseconds = link.nanoseconds if link.kind in {LinkKind.WORK, LinkKind.LAUNCH} else 0
        shown.append(Link(LinkKind.LEFT_OUT, left_out.nanoseconds + nanoseconds, count=left_out.count + 1))
    return tuple(shown)
