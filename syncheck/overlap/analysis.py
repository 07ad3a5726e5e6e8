"""Analysis of why work does not overlap: usage of streams and devices, cost of edges, and possible changes."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from syncheck.hb.ids import SiteId, StreamId
from syncheck.overlap import pairs, usage
from syncheck.overlap.critical_path import Link, links
from syncheck.overlap.ids import EdgeId, OpId
from syncheck.overlap.model import BETWEEN_DEVICES, Edge, EdgeKind, Graph, Need
from syncheck.overlap.pairs import Pair
from syncheck.overlap.schedule import Change, Schedule, shortest, simulate
from syncheck.overlap.usage import Usage

_MAX_SIMULATED = 40
"""Number of source lines for which the program is replayed without their edges."""
_MAX_STEPS = 4_000_000
"""Limit on replayed steps in total. For long programs, fewer lines are considered: the most costly ones."""
_MAX_LINES = 100
_MAX_LINKS = 30
"""Maximum number of parts of the critical path. If there are more, the longest are kept."""
_MIN_GAIN = 1_000
"""Minimum gain, in nanoseconds, for a change to be reported."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of the edges of one source line, or of the order of one stream.

    Attributes:
        kind: the kind of wait; None for a stream's own order.
        waiter: the stream that waits; 0 for the host.
        source: the stream waited for.
        site: the call; for a stream's own order, the operation with the longest unnecessary wait.
        other_site: where the event was recorded; for a stream's own order, the previous operation.
        count: number of edges of this line.
        stalled: how long the waiter was idle because of them, in nanoseconds.
        on_path: the part of `stalled` on the critical path.
        makespan: duration of the program without them, or with each wait moved to the latest possible point.
        needed: number of edges that are needed.
        need: the first dependency that needs one of them; None if there is none.
        is_removable: whether any of them can be removed or moved later. An edge that only the host's own reads need
            counts as removable.
    """

    kind: EdgeKind | None
    waiter: StreamId
    source: StreamId
    site: SiteId
    other_site: SiteId
    count: int
    stalled: int
    on_path: int
    makespan: int
    needed: int = 0
    need: Need | None = None
    is_removable: bool = True


@dataclass(frozen=True, slots=True)
class Analysis:
    """The result of an analysis. Times are in nanoseconds.

    Attributes:
        graph: the analyzed graph.
        schedule: when each operation would run.
        makespan: duration of the program on the GPUs.
        shortest: duration of the longest chain of dependent results. No order of the same operations is faster.
        streams, devices: usage of each of them.
        pairs: for two streams, the overlap that would be possible and that occurred.
        device_pairs: the same for two devices.
        costs: the costs of edges, most costly first.
        links: the critical path in order.
        path: operations on the critical path by operator and call site, with their total time.
        launching: the part of the critical path in which only the host works.
    """

    graph: Graph
    schedule: Schedule
    makespan: int
    shortest: int
    streams: tuple[Usage, ...]
    devices: tuple[Usage, ...]
    pairs: tuple[Pair, ...]
    device_pairs: tuple[Pair, ...]
    costs: tuple[Cost, ...]
    links: tuple[Link, ...]
    path: tuple[tuple[str, SiteId, int], ...]
    launching: int


def analyze(graph: Graph) -> Analysis:
    """Analyze why the work of a program does not overlap."""
    schedule = simulate(graph)
    path = schedule.critical_nodes()
    stream_pairs = pairs.of_streams(graph, schedule)
    return Analysis(
        graph,
        schedule,
        schedule.makespan,
        min(shortest(graph), schedule.makespan),  # a program with a race may violate its dependencies
        usage.of_streams(graph, schedule),
        usage.of_devices(graph, schedule),
        stream_pairs,
        pairs.of_devices(graph, schedule, stream_pairs),
        tuple(_costs(graph, schedule, path)),
        links(graph, schedule, path, _MAX_LINKS),
        tuple(_path_work(path, graph, schedule)),
        _launch_time(path, schedule),
    )


# -- edges


_Line = tuple[EdgeKind | None, SiteId, StreamId, StreamId]


def _costs(graph: Graph, schedule: Schedule, path: list[int]) -> Iterable[Cost]:
    on_path = _path_stalls(path, schedule)
    by_line: dict[_Line, list[EdgeId]] = {}
    for ident, edge in enumerate(graph.edges):
        kind = None if edge.kind in BETWEEN_DEVICES else edge.kind  # the edges of one copy are kept or removed together
        by_line.setdefault((kind, edge.site, edge.waiter, edge.source), []).append(ident)
    costly = sorted(by_line.values(), key=lambda edges: -sum(schedule.stalls.get(e, 0) for e in edges))
    most = max(3, min(_MAX_SIMULATED, _MAX_STEPS // max(len(graph.steps), 1)))
    simulated = [edges for edges in costly if any(edge in on_path for edge in edges)][:most]
    costs = [
        _cost(graph, schedule, edges, on_path, is_simulated=edges in simulated)
        for edges in costly[: max(most, _MAX_LINES)]
    ]
    costs += _stream_order_costs(graph, schedule, path, most)
    kept = [cost for cost in costs if cost.stalled >= _MIN_GAIN or schedule.makespan - cost.makespan >= _MIN_GAIN]
    return sorted(kept, key=lambda cost: (cost.makespan, -cost.on_path, -cost.stalled))


def _path_stalls(path: list[int], schedule: Schedule) -> Counter[EdgeId]:
    found: Counter[EdgeId] = Counter()
    for node in path:
        edge = schedule.node_edge[node]
        if edge >= 0:
            found[edge] += schedule.stalls.get(edge, 0)
    return found


def _cost(
    graph: Graph, schedule: Schedule, edges: list[EdgeId], on_path: Counter[EdgeId], *, is_simulated: bool
) -> Cost:
    """Return the cost of edges. Removing edges that are not on the critical path does not save time."""
    first: Edge = graph.edges[edges[0]]
    needs = [(edge, graph.needs[edge]) for edge in edges if edge in graph.needs]
    moved = {edge: need.op for edge, need in needs if need.op >= 0}
    fixed = [edge for edge, need in needs if need.why in {"memory", "clock"} and edge not in moved]
    dropped = set(edges) - set(fixed) - set(moved)
    is_removable = bool(moved or dropped)
    changed = simulate(graph, Change(dropped, moved)) if is_removable and is_simulated else schedule
    shown = next((need for edge, need in needs if edge in moved), needs[0][1] if needs else None)
    return Cost(
        first.kind,
        first.waiter,
        first.source,
        first.site,
        first.recorded,
        len(edges),
        sum(schedule.stalls.get(edge, 0) for edge in edges),
        sum(on_path[edge] for edge in edges),
        min(changed.makespan, schedule.makespan),
        len(needs),
        shown,
        is_removable,
    )


# -- the order within a stream


def _stream_order_costs(graph: Graph, schedule: Schedule, path: list[int], most: int) -> list[Cost]:
    ops = [schedule.node_op[node] for node in path if schedule.node_op[node] >= 0]
    streams = {graph.ops[op].stream for op in ops}
    costs = []
    for stream in sorted(streams)[:most]:
        changed = simulate(graph, Change(free=(stream,)))
        if schedule.makespan - changed.makespan >= _MIN_GAIN:
            costs.append(_stream_order_cost(graph, schedule, changed, stream))
    return costs


def _stream_order_cost(graph: Graph, schedule: Schedule, changed: Schedule, stream: StreamId) -> Cost:
    """Find the operation that waits the longest for another operation that it does not depend on."""
    longest, op, before = -1, -1, -1
    previous: OpId | None = None
    for ident, operation in enumerate(graph.ops):
        if operation.stream != stream:
            continue
        if previous is not None:
            needless = schedule.ends[previous] - max(changed.starts[ident], schedule.starts[previous])
            if needless > longest and changed.starts[ident] < schedule.starts[ident]:
                longest, op, before = needless, ident, previous
        previous = ident
    gain = schedule.makespan - changed.makespan
    sites = (graph.ops[op].site, graph.ops[before].site) if op >= 0 else (SiteId(0), SiteId(0))
    return Cost(None, stream, stream, *sites, 1, gain, gain, changed.makespan)


def _path_work(path: list[int], graph: Graph, schedule: Schedule) -> Iterable[tuple[str, SiteId, int]]:
    """Return the operations on the critical path, longest first."""
    found: Counter[tuple[str, SiteId]] = Counter()
    for node in path:
        op = schedule.node_op[node]
        if op >= 0:
            found[graph.ops[op].operator, graph.ops[op].site] += graph.ops[op].nanoseconds
    return [(operator, site, nanoseconds) for (operator, site), nanoseconds in found.most_common()]


def _launch_time(path: list[int], schedule: Schedule) -> int:
    """Return how long the critical path waits for the host to launch operations."""
    total = 0
    for node in path:
        op, before = schedule.node_op[node], schedule.node_before[node]
        if op >= 0:
            total += schedule.starts[op] - (schedule.node_time[before] if before >= 0 else 0)
    return total
