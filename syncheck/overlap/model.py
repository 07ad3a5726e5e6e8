"""The order graph: operations, the edges between them, and the steps of the host that made them. No torch."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from syncheck.hb.ids import NO_EVENT, UNKNOWN_SITE, Accesses, AllocationId, EventId, SiteId, StreamId, ViewId
from syncheck.overlap.ids import EdgeId, OpId
from syncheck.overlap.knowledge import Knowledge


class EdgeKind(StrEnum):
    """What makes work wait."""

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
        """Return whether it is the host that waits."""
        return self in _OF_HOST


_OF_HOST = frozenset(
    {EdgeKind.HOST_EVENT, EdgeKind.HOST_STREAM, EdgeKind.HOST_DEVICE, EdgeKind.HOST_READ, EdgeKind.HOST_COPY}
)
BETWEEN_DEVICES = frozenset({EdgeKind.PEER_BEFORE, EdgeKind.PEER_AFTER, EdgeKind.NULL_STREAM})
"""What a copy between devices makes by itself."""


class Operation(NamedTuple):
    """One operation of a stream.

    Attributes:
        operator: its name, as "aten::add".
        stream: the stream that it runs on.
        site: the call.
        nanoseconds: how long it takes, measured or by the cost model.
        n_bytes: that it reads and writes.
        flops: floating point operations, where the shapes are known.
        began: when it was measured to begin, in nanoseconds since the start; below 0 where it was not measured.
    """

    operator: str
    stream: StreamId
    site: SiteId
    nanoseconds: int
    n_bytes: int
    flops: int
    began: int = -1


class Edge(NamedTuple):
    """Something waits for a stream.

    Attributes:
        kind: what makes it wait.
        site: the call.
        waiter: the stream that waits; 0 for the host.
        source: the stream waited for; the first one, where the host waits for a device.
        event: the event waited for; 0 if there is none.
        recorded: where the event was recorded.
    """

    kind: EdgeKind
    site: SiteId
    waiter: StreamId
    source: StreamId
    event: EventId = NO_EVENT
    recorded: SiteId = UNKNOWN_SITE


class Need(NamedTuple):
    """The first thing that needs an edge.

    Attributes:
        before: the operation that must have ended; -1 if there is no particular one.
        op: the operation that must come after it; -1 for the host.
        allocation: the memory that both use; 0 if there is none.
        view: the part of it; -1 if unknown.
        site: where the host needs it, for the host.
        why: in a few words: "reads", "writes", "memory", "clock", "value".
    """

    before: OpId
    op: OpId
    allocation: AllocationId
    view: ViewId
    site: SiteId
    why: str


class StepKind(StrEnum):
    """What the host did."""

    RUN = "run"
    RECORD = "record"
    WAIT = "wait"
    HOST = "host"


Step: TypeAlias = tuple[StepKind, int, int, int]
"""RUN: (op, stream, 0). RECORD: (slot, stream, 0). WAIT: (edge, stream, slot). HOST: (edge, 0, slot)."""


class Stream(NamedTuple):
    """A stream that was seen."""

    device: int
    handle: int
    site: SiteId


class View(NamedTuple):
    """Some bytes of an allocation; sizes in elements."""

    sizes: tuple[int, ...]
    item_size: int
    dtype: str


class Allocation(NamedTuple):
    """One life of a block of memory; `home` is 0 for host memory."""

    home: StreamId
    n_bytes: int
    site: SiteId


@dataclass(slots=True)
class Graph:
    """The order graph of a run.

    Attributes:
        ops: all operations, as the host submitted them.
        edges: all edges but the order of each stream itself.
        steps: what the host did, in order: from this the times follow.
        needs: of the edges that something needs, the first thing.
        depends: op -> the operations whose results it needs, or whose memory it overwrites, if any.
        streams, views, allocations: by id.
        accesses: op -> what it reads and writes.
        measured: operations whose times were measured.
        elided: operations that were not passed on one by one, and have no times.
        left_out: operations after the limit of what is kept.
        is_timed_to_the_end: the limit is not that of operators to measure.
        replays: op -> the graph that it replays, as its number of operations.
        order: what each stream and the host know.
        notes: what the user should know.
    """

    ops: list[Operation] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    needs: dict[EdgeId, Need] = field(default_factory=dict)
    depends: dict[OpId, tuple[OpId, ...]] = field(default_factory=dict)
    streams: dict[StreamId, Stream] = field(default_factory=dict)
    views: list[View] = field(default_factory=list)
    allocations: dict[AllocationId, Allocation] = field(default_factory=dict)
    accesses: dict[OpId, Accesses] = field(default_factory=dict)
    measured: int = 0
    elided: int = 0
    left_out: int = 0
    is_timed_to_the_end: bool = True
    replays: dict[OpId, int] = field(default_factory=dict)
    order: Knowledge = field(default_factory=Knowledge)
    notes: dict[str, None] = field(default_factory=dict)
