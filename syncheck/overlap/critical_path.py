"""The critical path in order: stretches of work, and between them what the next one waited for."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from syncheck.hb.clock import HOST
from syncheck.hb.ids import StreamId
from syncheck.overlap.ids import EdgeId, OpId
from syncheck.overlap.model import Graph
from syncheck.overlap.schedule import Schedule

_NONE = -1
_WORTH_A_LINE = 0.05
"""Of the whole time: what the order of a stream must cost to interrupt a stretch of work."""


class LinkKind(StrEnum):
    """What a link of the path is."""

    WORK = "work"
    WAIT = "wait"
    ORDER = "stream order"
    LAUNCH = "launch"
    LEFT_OUT = "left out"


@dataclass(frozen=True, slots=True)
class Link:
    """A part of the critical path; times in nanoseconds.

    Attributes:
        kind: what it is: operations of one stream; an edge; the order of a stream, where nothing needs it and it costs
            much; the time in which only the host works; links that are not shown.
        taken: of work, how long it takes; of an edge, how long the waiter had nothing to do; of the order of a stream,
            how much earlier the next operation could have begun.
        stream: of work and of a stream's order, the stream.
        first, last, longest: of work, operations; of a stream's order, the one before and the one after.
        count: of work, its operations; of links that are not shown, how many.
        edge: the edge of a wait.
    """

    kind: LinkKind
    taken: int
    stream: StreamId = HOST
    first: OpId = _NONE
    last: OpId = _NONE
    longest: OpId = _NONE
    count: int = 0
    edge: EdgeId = _NONE


def links(graph: Graph, schedule: Schedule, path: list[int], most: int) -> tuple[Link, ...]:
    """Return the critical path from its beginning to its end.

    Args:
        graph: what was done.
        schedule: when.
        path: the nodes of the critical path.
        most: of more links than this the longest are kept; LEFT_OUT stands for those between them.
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
    """Return what stands between an operation and the node before it; None for nothing that is worth a line."""
    launching = schedule.starts[op] - (schedule.node_time[before] if before >= 0 else 0)
    if launching > 0:
        return Link(LinkKind.LAUNCH, launching)
    previous = schedule.node_op[before] if before >= 0 else _NONE
    needed = graph.depends.get(op, ())
    if previous < 0 or previous in needed:
        return None
    ready = max((schedule.ends[other] for other in needed), default=0)
    earlier = schedule.starts[op] - max(ready, schedule.starts[previous])
    if earlier <= _WORTH_A_LINE * schedule.makespan:
        return None
    return Link(LinkKind.ORDER, earlier, graph.ops[op].stream, previous, op)


def _work(graph: Graph, ops: list[OpId]) -> Iterator[Link]:
    if ops:
        longest = max(ops, key=lambda op: graph.ops[op].nanoseconds)
        taken = sum(graph.ops[op].nanoseconds for op in ops)
        yield Link(LinkKind.WORK, taken, graph.ops[ops[0]].stream, ops[0], ops[-1], longest, len(ops))


def _shortened(found: list[Link], most: int) -> tuple[Link, ...]:
    """Keep the longest links in their order, and one in place of each run of others."""
    if len(found) <= most:
        return tuple(found)
    kept = set(sorted(range(len(found)), key=lambda number: -found[number].taken)[:most])
    shown: list[Link] = []
    for number, link in enumerate(found):
        if number in kept:
            shown.append(link)
            continue
        left_out = shown.pop() if shown and shown[-1].kind is LinkKind.LEFT_OUT else Link(LinkKind.LEFT_OUT, 0)
        taken = link.taken if link.kind in {LinkKind.WORK, LinkKind.LAUNCH} else 0
        shown.append(Link(LinkKind.LEFT_OUT, left_out.taken + taken, count=left_out.count + 1))
    return tuple(shown)
