"""Start and end times of operations, from a replay of the host's steps with some edges dropped or moved."""

from array import array
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import TypeAlias

from syncheck.hb.clock import HOST
from syncheck.hb.ids import StreamId
from syncheck.overlap.cost import LAUNCH_NANOSECONDS
from syncheck.overlap.ids import EdgeId, OpId, SlotId
from syncheck.overlap.model import Graph, StepKind

Numbers: TypeAlias = "array[int]"  # quoted: Python 3.11 cannot subscript it

_START = -1
"""Pseudo-node: the start of the program."""


@dataclass(frozen=True, slots=True)
class Change:
    """A hypothetical change to the program.

    Attributes:
        dropped: edges that are removed.
        moved: edge -> the operation before which it takes effect instead. A host wait becomes a wait of the operation's
            stream.
        free: streams whose own order is ignored: each operation waits only for its dependencies.
    """

    dropped: Collection[EdgeId] = ()
    moved: Mapping[EdgeId, OpId] = field(default_factory=dict)
    free: Collection[StreamId] = ()


UNCHANGED = Change()


@dataclass(slots=True)
class Schedule:
    """Start and end times of operations, in nanoseconds from the start of the program.

    A node stands for a point in time: the end of an operation or of a wait.

    Attributes:
        starts, ends: times of each operation.
        makespan: the end of the last operation.
        stalls: edge -> how long its waiter was idle because of it.
        host_waits: (begin, end, edge) of each host wait.
        last: the node that ends last; -1 if there is none.
        node_op: operation of each node; -1 for a wait.
        node_edge: edge of each node; -1 for an operation.
        node_before: for each node, the node that it waited for last.
        node_time: time of each node.
    """

    starts: Numbers
    ends: Numbers
    makespan: int = 0
    stalls: dict[EdgeId, int] = field(default_factory=dict)
    host_waits: list[tuple[int, int, EdgeId]] = field(default_factory=list)
    last: int = _START
    node_op: Numbers = field(default_factory=lambda: array("q"))
    node_edge: Numbers = field(default_factory=lambda: array("q"))
    node_before: Numbers = field(default_factory=lambda: array("q"))
    node_time: Numbers = field(default_factory=lambda: array("q"))

    def critical_nodes(self) -> list[int]:
        """Return the nodes of the critical path in order."""
        path, node = [], self.last
        while node != _START:
            path.append(node)
            node = self.node_before[node]
        return path[::-1]


class _Simulation:
    """Replays the steps. `_at` maps a stream or the host to the node and time from which it can continue."""

    def __init__(self, graph: Graph, change: Change) -> None:
        self._graph = graph
        self._change = change
        zeros = array("q", bytes(8 * len(graph.ops)))
        self.result = Schedule(zeros, zeros[:])
        self._op_node = array("q", bytes(8 * len(graph.ops)))
        self._at: dict[StreamId, tuple[int, int]] = {HOST: (0, _START)}
        self._reach: dict[StreamId, tuple[int, int]] = {}  # free stream -> when all of its work has ended
        self._slots: dict[SlotId, tuple[int, int]] = {}
        self._waited: dict[StreamId, list[tuple[EdgeId, int, int]]] = {}  # waits since the stream's last operation
        moved = sorted((op, edge) for edge, op in change.moved.items())
        self._before = {op: [edge for _, edge in edges] for op, edges in groupby(moved, key=lambda pair: pair[0])}
        self._held: dict[EdgeId, SlotId] = {}

    def simulate(self) -> Schedule:
        for kind, first, stream, slot in self._graph.steps:
            match kind:
                case StepKind.RUN:
                    self._run(first, StreamId(stream))
                case StepKind.RECORD:
                    self._slots[first] = self._reached(StreamId(stream))
                case _:
                    self._wait(first, StreamId(stream), slot)
        return self.result

    def _reached(self, stream: StreamId) -> tuple[int, int]:
        at = self._at.get(stream, (0, _START))
        return max(at, self._reach[stream]) if stream in self._reach else at

    def _node(self, op: int, edge: int, before: int, time: int) -> int:
        result = self.result
        result.node_op.append(op)
        result.node_edge.append(edge)
        result.node_before.append(before)
        result.node_time.append(time)
        return len(result.node_op) - 1

    def _wait(self, edge: EdgeId, waiter: StreamId, slot: SlotId) -> None:
        if edge in self._change.moved:
            self._held[edge] = slot
        elif edge not in self._change.dropped:
            self._apply(edge, waiter, self._slots[slot])

    def _apply(self, edge: EdgeId, waiter: StreamId, until: tuple[int, int]) -> None:
        time, _ = self._at.get(waiter, (0, _START))
        if until[0] <= time:
            return
        self._at[waiter] = (until[0], self._node(-1, edge, until[1], until[0]))
        if waiter == HOST:
            self._stall(edge, until[0] - time)
            self.result.host_waits.append((time, until[0], edge))
        else:
            self._waited.setdefault(waiter, []).append((edge, time, until[0]))

    def _stall(self, edge: EdgeId, time: int) -> None:
        if time > 0:
            self.result.stalls[edge] = self.result.stalls.get(edge, 0) + time

    def _run(self, op: OpId, stream: StreamId) -> None:
        self._apply_held(op, stream)
        host_time, host_node = self._at[HOST]
        host_time += LAUNCH_NANOSECONDS
        for edge, begin, end in self._waited.pop(stream, ()):  # a stream without work to run is not stalled
            self._stall(edge, end - max(begin, host_time))
        self._at[HOST] = (host_time, host_node)
        ready = self._at.get(stream, (0, _START))
        if stream in self._change.free:
            ready = max([ready, *map(self._end_of, self._graph.depends.get(op, ()))])
        began, before = ready if ready[0] > host_time else (host_time, host_node)
        self._end(op, stream, began, before)

    def _apply_held(self, op: OpId, stream: StreamId) -> None:
        for edge in self._before.get(op, ()):
            if edge in self._held:
                waiter = self._graph.edges[edge].waiter
                for actor in {stream, waiter} - {HOST}:
                    self._apply(edge, actor, self._slots[self._held[edge]])

    def _end(self, op: OpId, stream: StreamId, began: int, before: int) -> None:
        result = self.result
        ended = began + self._graph.ops[op].nanoseconds
        node = self._node(op, -1, before, ended)
        result.starts[op], result.ends[op] = began, ended
        self._op_node[op] = node
        if stream in self._change.free:
            self._reach[stream] = max(self._reach.get(stream, (0, _START)), (ended, node))
        else:
            self._at[stream] = (ended, node)
        if ended > result.makespan:
            result.makespan, result.last = ended, node

    def _end_of(self, op: OpId) -> tuple[int, int]:
        return self.result.ends[op], self._op_node[op]


def simulate(graph: Graph, change: Change = UNCHANGED) -> Schedule:
    """Return when each operation would run if the host and the GPUs ran only this program.

    Operations on several streams of one device run concurrently as if each had the device to itself, so the gain from a
    change is an upper bound.
    """
    return _Simulation(graph, change).simulate()


def shortest(graph: Graph) -> int:
    """Return the duration of the longest chain of operations in which each depends on the previous one."""
    ends = array("q", bytes(8 * len(graph.ops)))
    longest = 0
    for op, operation in enumerate(graph.ops):
        began = max((ends[before] for before in graph.depends.get(op, ())), default=0)
        ends[op] = began + operation.nanoseconds
        longest = max(longest, ends[op])
    return longest
