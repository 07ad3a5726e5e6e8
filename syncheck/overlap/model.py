"""The order graph: operations, edges between them, and the host's steps that created them. Independent of torch."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from syncheck.hb.ids import NO_EVENT, UNKNOWN_SITE, Accesses, AllocationId, EventId, SiteId, StreamId, ViewId
from syncheck.overlap.ids import EdgeId, OpId
from syncheck.overlap.knowledge import Knowledge
from syncheck.sanitizer.messages import StreamInfo, View


class EdgeKind(StrEnum):
    """Cause of a wait."""

    EVENT = "event wait"
    STREAM = "wait_stream"
    TORCH = "torch's own wait"
    PEER_BEFORE = "copy waits for the other device"
    PEER_AFTER = "other device waits for the copy"
    NULL_STREAM = "copy on the default stream"
    LEGACY = "legacy default stream"
    HOST_EVENT = "host waits for an event"
    HOST_STREAM = "host waits for a stream"
    HOST_DEVICE = "host waits for a device"
    HOST_READ = "host reads a value"
    HOST_COPY = "host waits for its own copy"

    @property
    def is_host(self) -> bool:
        """Return whether the host waits."""
        return self in _HOST_KINDS


_HOST_KINDS = frozenset(
    {EdgeKind.HOST_EVENT, EdgeKind.HOST_STREAM, EdgeKind.HOST_DEVICE, EdgeKind.HOST_READ, EdgeKind.HOST_COPY}
)
BETWEEN_DEVICES = frozenset({EdgeKind.PEER_BEFORE, EdgeKind.PEER_AFTER, EdgeKind.NULL_STREAM})
"""Edges created implicitly by a copy between devices."""


class Operation(NamedTuple):
    """One operation of a stream.

    Attributes:
        operator: its name, such as "aten::add".
        stream: the stream that it runs on.
        site: the call site.
        nanoseconds: its duration, measured or estimated by the cost model.
        n_bytes: number of bytes that it reads and writes.
        flops: number of floating point operations, where the shapes are known.
        began: its measured start, in nanoseconds since the start of the run; negative if not measured.
    """

    operator: str
    stream: StreamId
    site: SiteId
    nanoseconds: int
    n_bytes: int
    flops: int
    began: int = -1


class Edge(NamedTuple):
    """A wait for a stream.

    Attributes:
        kind: the cause of the wait.
        site: the call site.
        waiter: the stream that waits; 0 for the host.
        source: the stream waited for; one of them if the host waits for a device.
        event: the event waited for; 0 if there is none.
        recorded: the call site of the event's record.
    """

    kind: EdgeKind
    site: SiteId
    waiter: StreamId
    source: StreamId
    event: EventId = NO_EVENT
    recorded: SiteId = UNKNOWN_SITE


class Need(NamedTuple):
    """The first dependency that needs an edge.

    Attributes:
        before: the operation that must have ended; -1 if there is no particular one.
        op: the operation that must come after it; -1 for the host.
        allocation: the memory that both access; 0 if there is none.
        view: the part of the memory; -1 if unknown.
        site: the call site, if the host needs the edge.
        why: the reason: "reads", "writes", "memory", "clock", "value" or "copy".
    """

    before: OpId
    op: OpId
    allocation: AllocationId
    view: ViewId
    site: SiteId
    why: str


class StepKind(StrEnum):
    """Kind of a step of the host."""

    RUN = "run"
    RECORD = "record"
    WAIT = "wait"
    HOST = "host"


Step: TypeAlias = tuple[StepKind, int, int, int]
"""RUN: (op, stream, 0). RECORD: (slot, stream, 0). WAIT: (edge, stream, slot). HOST: (edge, 0, slot)."""


class Allocation(NamedTuple):
    """An allocation, from its creation to its release. `home` is 0 for host memory."""

    home: StreamId
    n_bytes: int
    site: SiteId


@dataclass(slots=True)
class Graph:
    """The order graph of a run.

    Attributes:
        ops: all operations, in the order of submission by the host.
        edges: all edges except the order within each stream.
        steps: the steps of the host, in order. The times are derived from them.
        needs: edge -> the first dependency that needs it, for edges that are needed.
        depends: op -> the operations whose results it needs or whose memory it overwrites, if any.
        streams, views, allocations: by id.
        accesses: op -> its reads and writes.
        measured: number of operations with measured times.
        elided: number of operations that were not reported individually and have no times.
        left_out: number of operations beyond the recording limit.
        is_timing_complete: whether operators were timed until the end, so that `left_out` is not due to the timing
            limit.
        replays: op -> number of operations of the graph that it replays.
        order: the operations known to each stream and the host to have ended.
        notes: messages for the user.
    """

    ops: list[Operation] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    needs: dict[EdgeId, Need] = field(default_factory=dict)
    depends: dict[OpId, tuple[OpId, ...]] = field(default_factory=dict)
    streams: dict[StreamId, StreamInfo] = field(default_factory=dict)
    views: list[View] = field(default_factory=list)
    allocations: dict[AllocationId, Allocation] = field(default_factory=dict)
    accesses: dict[OpId, Accesses] = field(default_factory=dict)
    measured: int = 0
    elided: int = 0
    left_out: int = 0
    is_timing_complete: bool = True
    replays: dict[OpId, int] = field(default_factory=dict)
    order: Knowledge = field(default_factory=Knowledge)
    notes: dict[str, None] = field(default_factory=dict)
