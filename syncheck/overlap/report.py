"""The result of an analysis in words and locations: plain data for the table, the timeline and the trace viewer."""

from dataclasses import dataclass, field

from syncheck.findings import Location

STREAM_ORDER = "stream order"


@dataclass(frozen=True, slots=True)
class UsageLine:
    """Usage of a stream or device. Times are in nanoseconds."""

    name: str
    device: int
    operations: int
    work: int
    idle: int
    is_device: bool


@dataclass(frozen=True, slots=True)
class PairLine:
    """Possible and actual overlap of two streams or devices. `measured` is -1 without measurements.

    Attributes:
        blocking_edges: the edges that leave nothing free to overlap, in words, each with its place.
    """

    first: str
    second: str
    free: int
    overlapped: int
    measured: int
    is_devices: bool
    blocking_edges: tuple[tuple[str, Location], ...] = ()


@dataclass(frozen=True, slots=True)
class EdgeLine:
    """Cost of the edges of one source line. Times are in nanoseconds.

    Attributes:
        kind: the kind of the edges, as in `EdgeKind`, or STREAM_ORDER.
        text: the edge in words.
        location: the call site.
        count: number of edges created by the line.
        waits: how long the waiter was idle.
        on_path: the part of `waits` on the critical path.
        need: the dependency that needs it, in words.
        is_needed: whether anything needs it.
        speed_up: upper bound on the speed-up factor of the program without it; 1.0 for no gain.
        advice: the change to make; "" if there is none.
    """

    kind: str
    text: str
    location: Location
    count: int
    waits: int
    on_path: int
    need: str
    is_needed: bool
    speed_up: float
    advice: str


@dataclass(frozen=True, slots=True)
class WorkLine:
    """Operations of one call site on the critical path."""

    operator: str
    location: Location
    nanoseconds: int


@dataclass(frozen=True, slots=True)
class LinkLine:
    """A part of the critical path.

    Attributes:
        text: the work or the edge, in words.
        location: the call site; of several operations, that of the longest.
        nanoseconds: duration of the work or cost of the edge, in nanoseconds.
        need: the dependency that needs an edge, in words; "" for work.
        is_needed: False for an edge that nothing needs.
        is_edge: whether this is an edge; False for work.
    """

    text: str
    location: Location
    nanoseconds: int
    need: str = ""
    is_needed: bool = True
    is_edge: bool = False


@dataclass(frozen=True, slots=True)
class OverlapReport:
    """Why the work of a program does not overlap. Times are in nanoseconds.

    Attributes:
        times: the source of the times, in words.
        makespan: duration of the program on the GPUs.
        shortest: duration of the longest chain of dependent results.
        verdicts: the answer in a few sentences.
        links: the critical path, from start to end.
        path: the operations that make the critical path long.
        notes: limitations of the analysis.
        device_type: the torch module of the GPUs.
    """

    backend: str
    times: str
    operations: int
    makespan: int
    shortest: int
    verdicts: tuple[str, ...]
    uses: tuple[UsageLine, ...]
    pairs: tuple[PairLine, ...]
    edges: tuple[EdgeLine, ...]
    links: tuple[LinkLine, ...]
    path: tuple[WorkLine, ...]
    notes: tuple[str, ...] = field(default=())
    device_type: str = "cuda"
