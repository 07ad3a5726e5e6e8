"""What an analysis says, in words and places: plain data for the table, the picture and the trace viewer."""

from dataclasses import dataclass, field

from syncheck.findings import Place

STREAM_ORDER = "stream order"


@dataclass(frozen=True, slots=True)
class UseLine:
    """What a stream or a device does; times in nanoseconds."""

    name: str
    device: int
    operations: int
    work: int
    idle: int
    is_device: bool


@dataclass(frozen=True, slots=True)
class PairLine:
    """What two streams, or two devices, could do at the same time, and do; `measured` is -1 where it was not.

    Attributes:
        forbidden: the edges that leave nothing free, in words, each with its place.
    """

    first: str
    second: str
    free: int
    overlapped: int
    measured: int
    is_devices: bool
    forbidden: tuple[tuple[str, Place], ...] = ()


@dataclass(frozen=True, slots=True)
class EdgeLine:
    """What the edges of one source line cost; times in nanoseconds.

    Attributes:
        kind: of the edges, as `EdgeKind`, or STREAM_ORDER.
        text: the edge in words.
        place: the call.
        count: how many edges it made.
        waits: how long the waiter had nothing to do.
        on_path: the part of that on the critical path.
        need: what needs it, in words.
        is_needed: something needs it.
        speed_up: how many times as fast the program would be without it, at most; 1.0 where nothing can be won.
        advice: what to change; "" if nothing.
    """

    kind: str
    text: str
    place: Place
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
    place: Place
    taken: int


@dataclass(frozen=True, slots=True)
class LinkLine:
    """A part of the critical path.

    Attributes:
        text: the work, or the edge, in words.
        place: the call; of several operations, that of the longest.
        taken: how long the work takes, or what the edge costs; in nanoseconds.
        need: what needs an edge, in words; "" for work.
        is_needed: False for an edge that nothing needs.
        is_edge: it is an edge, and not work.
    """

    text: str
    place: Place
    taken: int
    need: str = ""
    is_needed: bool = True
    is_edge: bool = False


@dataclass(frozen=True, slots=True)
class OverlapReport:
    """Why the work of a program does not overlap; times in nanoseconds.

    Attributes:
        times: where they come from, in words.
        makespan: how long the program takes on the GPUs.
        shortest: how long its longest chain of results takes.
        verdicts: the answer, in a few sentences.
        links: the critical path, from its beginning to its end.
        path: what makes it long.
        notes: what limits it.
        device_type: the module of torch that the GPUs belong to.
    """

    backend: str
    times: str
    operations: int
    makespan: int
    shortest: int
    verdicts: tuple[str, ...]
    uses: tuple[UseLine, ...]
    pairs: tuple[PairLine, ...]
    edges: tuple[EdgeLine, ...]
    links: tuple[LinkLine, ...]
    path: tuple[WorkLine, ...]
    notes: tuple[str, ...] = field(default=())
    device_type: str = "cuda"
