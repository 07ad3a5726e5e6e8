"""The possible and actual overlap of two streams or devices, and the edges that prevent it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, combinations

from syncheck.hb.ids import StreamId
from syncheck.overlap.ids import EdgeId, OpId
from syncheck.overlap.model import Graph
from syncheck.overlap.schedule import Schedule
from syncheck.overlap.usage import Interval, common, ops_by_stream, ran, union

_MAX_STREAMS = 12
"""Maximum number of streams to compare: those with the most work."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Overlap of two streams or two devices. Times are in nanoseconds.

    Attributes:
        first, second: stream ids, or device indices.
        free: upper bound on the work of one that may run at the same time as work of the other.
        overlapped: how long both run according to the schedule.
        measured: how long both ran according to measurements; -1 without measurements.
        blocking_edges: if nothing is free, the edges that order a typical long operation with the other stream.
    """

    first: int
    second: int
    free: int
    overlapped: int
    measured: int = -1
    blocking_edges: tuple[EdgeId, ...] = ()


class _Work:
    """The operations of a stream, and the total duration of the first n of them, for each n."""

    def __init__(self, graph: Graph, stream: StreamId, ops: list[OpId]) -> None:
        self.stream = stream
        self.ops = ops
        self.cumulative = list(accumulate((graph.ops[op].nanoseconds for op in ops), initial=0))


def of_streams(graph: Graph, schedule: Schedule) -> tuple[Pair, ...]:
    """Return the possible and actual overlap of each pair of streams."""
    works = [_Work(graph, stream, ops) for stream, ops in ops_by_stream(graph).items()]
    works = sorted(sorted(works, key=lambda work: -work.cumulative[-1])[:_MAX_STREAMS], key=lambda work: work.stream)
    planned = {work.stream: union((schedule.starts[op], schedule.ends[op]) for op in work.ops) for work in works}
    measured = {work.stream: _measured(graph, schedule, work.ops) for work in works}
    return tuple(
        Pair(
            one.stream,
            other.stream,
            free := min(_free(graph, one, other), _free(graph, other, one)),
            common(planned[one.stream], planned[other.stream]),
            _common_measured(measured[one.stream], measured[other.stream]),
            () if free else tuple(dict.fromkeys(_blocking_edges(graph, one, other))),
        )
        for one, other in combinations(works, 2)
    )


def _measured(graph: Graph, schedule: Schedule, ops: list[OpId]) -> list[Interval]:
    return union(ran(graph, schedule, op) for op in ops if graph.ops[op].began >= 0)


def _common_measured(first: list[Interval], second: list[Interval]) -> int:
    return common(first, second) if first and second else -1


def _unordered(graph: Graph, one: _Work, other: _Work, ops: Iterable[OpId]) -> Iterator[tuple[OpId, int, int]]:
    """Yield operations of a stream, given in ascending order, with the unordered operations of another stream.

    Yields:
        The operation, and the range of positions among the operations of the other stream.
    """
    theirs, begin, end = other.ops, 0, 0
    ops = list(ops)
    for op, (known, since) in zip(ops, graph.order.order_bounds(one.stream, other.stream, ops), strict=True):
        while begin < len(theirs) and theirs[begin] <= known:
            begin += 1
        while end < len(theirs) and theirs[end] < since:
            end += 1
        yield op, begin, end


def _free(graph: Graph, one: _Work, other: _Work) -> int:
    """Return the total duration of a stream's operations that are unordered with some operation of the other."""
    total = 0
    for op, begin, end in _unordered(graph, one, other, one.ops):
        if end > begin and other.cumulative[end] > other.cumulative[begin]:
            total += graph.ops[op].nanoseconds
    return total


def _blocking_edges(graph: Graph, one: _Work, other: _Work) -> Iterator[EdgeId]:
    """Yield the edges between a long operation of either stream and its neighbors on the other stream.

    Of the operations that take at least half as long as the longest one, the middle one is typical: the first and the
    last iteration of a loop also wait for what comes before and after the loop.
    """
    ops = sorted([*one.ops, *other.ops])
    least = max(graph.ops[op].nanoseconds for op in ops) / 2
    long = [op for op in ops if graph.ops[op].nanoseconds >= least]
    typical = long[len(long) // 2]
    mine, theirs = (one, other) if graph.ops[typical].stream == one.stream else (other, one)
    _, begin, end = next(_unordered(graph, mine, theirs, (typical,)))
    if end < len(theirs.ops):
        yield from graph.order.chain(theirs.stream, mine.stream, typical)
    if begin > 0:
        yield from graph.order.chain(mine.stream, theirs.stream, theirs.ops[begin - 1])


# -- devices


def of_devices(graph: Graph, schedule: Schedule, streams: Iterable[Pair]) -> tuple[Pair, ...]:
    """Return the possible and actual overlap of each pair of devices, given that of streams."""
    by_device: dict[int, list[OpId]] = {}
    for op, operation in enumerate(graph.ops):
        by_device.setdefault(graph.streams[operation.stream].device, []).append(op)
    planned = {d: union((schedule.starts[op], schedule.ends[op]) for op in ops) for d, ops in by_device.items()}
    measured = {device: _measured(graph, schedule, ops) for device, ops in by_device.items()}
    free = {(p.first, p.second): p.free for p in streams}
    found = []
    for one, other in combinations(sorted(by_device), 2):
        is_between = {
            pair: n
            for pair, n in free.items()
            if {graph.streams[StreamId(s)].device for s in pair} == {one, other}
        }  # fmt: skip
        overlapped = common(planned[one], planned[other])
        found.append(
            Pair(one, other, sum(is_between.values()), overlapped, _common_measured(measured[one], measured[other]))
        )
    return tuple(found)
