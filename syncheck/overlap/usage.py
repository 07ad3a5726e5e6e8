"""Usage of each stream and device: how long it works, and how much of that concurrently."""

from collections.abc import Iterable
from dataclasses import dataclass

from syncheck.hb.ids import StreamId
from syncheck.overlap.ids import OpId
from syncheck.overlap.model import Graph
from syncheck.overlap.schedule import Schedule

Interval = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Usage:
    """Usage of a stream or device, in nanoseconds.

    Attributes:
        stream: the stream; 0 for a device as a whole.
        device: the device's index.
        operations: number of operations that it runs.
        work: the sum of their durations.
        busy: how long at least one of them runs.
        idle: how long none runs, from the start of the program to its end.
    """

    stream: StreamId
    device: int
    operations: int
    work: int
    busy: int
    idle: int


def ran(graph: Graph, schedule: Schedule, op: OpId) -> Interval:
    """Return when an operation ran: as measured, or according to the schedule."""
    operation = graph.ops[op]
    if operation.began >= 0:
        return operation.began, operation.began + operation.nanoseconds
    return schedule.starts[op], schedule.ends[op]


def ops_by_stream(graph: Graph) -> dict[StreamId, list[OpId]]:
    """Return the operations of each stream that has any."""
    found: dict[StreamId, list[OpId]] = {}
    for op, operation in enumerate(graph.ops):
        found.setdefault(operation.stream, []).append(op)
    return dict(sorted(found.items()))


def of_streams(graph: Graph, schedule: Schedule) -> tuple[Usage, ...]:
    """Return the usage of each stream."""
    return tuple(
        _usage(stream, graph.streams[stream].device, [(schedule.starts[op], schedule.ends[op]) for op in ops], schedule)
        for stream, ops in ops_by_stream(graph).items()
    )


def of_devices(graph: Graph, schedule: Schedule) -> tuple[Usage, ...]:
    """Return the usage of each device."""
    by_device: dict[int, list[Interval]] = {}
    for op, operation in enumerate(graph.ops):
        device = graph.streams[operation.stream].device
        by_device.setdefault(device, []).append((schedule.starts[op], schedule.ends[op]))
    return tuple(_usage(StreamId(0), device, found, schedule) for device, found in sorted(by_device.items()))


def _usage(stream: StreamId, device: int, intervals: list[Interval], schedule: Schedule) -> Usage:
    work = sum(end - start for start, end in intervals)
    busy = length(union(intervals))
    return Usage(stream, device, len(intervals), work, busy, schedule.makespan - busy)


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """Merge intervals into sorted intervals that do not touch."""
    found: list[Interval] = []
    for start, end in sorted(intervals):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def length(intervals: Iterable[Interval]) -> int:
    """Return the total length of intervals that do not touch."""
    return sum(end - start for start, end in intervals)


def common(first: list[Interval], second: list[Interval]) -> int:
    """Return the length of the intersection of two lists of intervals, each as returned by `union`."""
    total = i = j = 0
    while i < len(first) and j < len(second):
        start, end = max(first[i][0], second[j][0]), min(first[i][1], second[j][1])
        total += max(0, end - start)
        if first[i][1] < second[j][1]:
            i += 1
        else:
            j += 1
    return total
