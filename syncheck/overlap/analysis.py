"""Why work does not overlap: what streams and devices do, what each edge costs, and what could be different."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from syncheck.hb.ids import SiteId, StreamId
from syncheck.overlap import pairs, usage
from syncheck.overlap.critical_path import Link, links
from syncheck.overlap.ids import EdgeId, OpId
from syncheck.overlap.model import BETWEEN_DEVICES, Edge, EdgeKind, Graph, Need
from syncheck.overlap.pairs import Pair
from syncheck.overlap.schedule import Change, Schedule, play, shortest
from syncheck.overlap.usage import Use

_MOST_PLAYED = 40
"""Source lines for which the whole program is played again without their edges."""
_MOST_STEPS = 4_000_000
"""Steps that are played again in all: of long programs fewer lines are looked at, those that cost the most."""
_MOST_LINES = 100
_MOST_LINKS = 30
"""Parts of the critical path that are kept: of more, the longest."""
_LEAST_GAIN = 1_000
"""Nanoseconds below which a change is not worth a line."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What the edges of one source line cost, or the order of one stream.

    Attributes:
        kind: what makes work wait; None for a stream's own order.
        waiter: the stream that waits; 0 for the host.
        source: the stream waited for.
        site: the call; for a stream's own order, the operation that waits the longest without need.
        other_site: where the event was recorded; for a stream's own order, the operation before.
        count: edges of this line.
        stalled: how long the waiter had nothing to do because of them, in nanoseconds.
        on_path: the part of it on the critical path.
        makespan: how long the program would take without them, or with waits as late as they are needed.
        needed: how many of them something needs.
        need: the first thing that needs one; None if nothing does.
        is_removable: they can be left out, or made later: nothing but the host's own reading needs them as they are.
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
    """What was found; times in nanoseconds.

    Attributes:
        graph: what it was found in.
        schedule: when everything would run.
        makespan: how long the program takes on the GPUs.
        shortest: how long its longest chain of results takes: no order of the same operations is faster.
        streams, devices: what each of them does.
        pairs: what two streams could do at the same time, and did.
        device_pairs: the same of two devices.
        costs: the edges that cost the most, first.
        links: the critical path in order.
        path: operations of the critical path by operator and call site: the time they take.
        launching: the part of the critical path in which only the host works.
    """

    graph: Graph
    schedule: Schedule
    makespan: int
    shortest: int
    streams: tuple[Use, ...]
    devices: tuple[Use, ...]
    pairs: tuple[Pair, ...]
    device_pairs: tuple[Pair, ...]
    costs: tuple[Cost, ...]
    links: tuple[Link, ...]
    path: tuple[tuple[str, SiteId, int], ...]
    launching: int


def analyze(graph: Graph) -> Analysis:
    """Return why the work of a program does not overlap."""
    schedule = play(graph)
    path = schedule.critical_nodes()
    stream_pairs = pairs.of_streams(graph, schedule)
    return Analysis(
        graph,
        schedule,
        schedule.makespan,
        min(shortest(graph), schedule.makespan),  # a program with a race does not keep to its results
        usage.of_streams(graph, schedule),
        usage.of_devices(graph, schedule),
        stream_pairs,
        pairs.of_devices(graph, schedule, stream_pairs),
        tuple(_costs(graph, schedule, path)),
        links(graph, schedule, path, _MOST_LINKS),
        tuple(_work_on(path, graph, schedule)),
        _launching_on(path, schedule),
    )


# -- edges


_Line = tuple[EdgeKind | None, SiteId, StreamId, StreamId]


def _costs(graph: Graph, schedule: Schedule, path: list[int]) -> Iterable[Cost]:
    on_path = _stalls_on(path, schedule)
    by_line: dict[_Line, list[EdgeId]] = {}
    for ident, edge in enumerate(graph.edges):
        kind = None if edge.kind in BETWEEN_DEVICES else edge.kind  # of one copy they go together, or not at all
        by_line.setdefault((kind, edge.site, edge.waiter, edge.source), []).append(ident)
    costly = sorted(by_line.values(), key=lambda edges: -sum(schedule.stalls.get(e, 0) for e in edges))
    most = max(3, min(_MOST_PLAYED, _MOST_STEPS // max(len(graph.steps), 1)))
    played = [edges for edges in costly if any(edge in on_path for edge in edges)][:most]
    costs = [
        _cost(graph, schedule, edges, on_path, is_played=edges in played) for edges in costly[: max(most, _MOST_LINES)]
    ]
    costs += _costs_of_stream_order(graph, schedule, path, most)
    kept = [cost for cost in costs if cost.stalled >= _LEAST_GAIN or schedule.makespan - cost.makespan >= _LEAST_GAIN]
    return sorted(kept, key=lambda cost: (cost.makespan, -cost.on_path, -cost.stalled))


def _stalls_on(path: list[int], schedule: Schedule) -> Counter[EdgeId]:
    found: Counter[EdgeId] = Counter()
    for node in path:
        edge = schedule.node_edge[node]
        if edge >= 0:
            found[edge] += schedule.stalls.get(edge, 0)
    return found


def _cost(graph: Graph, schedule: Schedule, edges: list[EdgeId], on_path: Counter[EdgeId], *, is_played: bool) -> Cost:
    """Return what edges cost; without those that are not on the critical path nothing is faster."""
    first: Edge = graph.edges[edges[0]]
    needs = [(edge, graph.needs[edge]) for edge in edges if edge in graph.needs]
    moved = {edge: need.op for edge, need in needs if need.op >= 0}
    fixed = [edge for edge, need in needs if need.why in {"memory", "clock"} and edge not in moved]
    dropped = set(edges) - set(fixed) - set(moved)
    is_removable = bool(moved or dropped)
    changed = play(graph, Change(dropped, moved)) if is_removable and is_played else schedule
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


# -- the order of each stream itself


def _costs_of_stream_order(graph: Graph, schedule: Schedule, path: list[int], most: int) -> list[Cost]:
    ops = [schedule.node_op[node] for node in path if schedule.node_op[node] >= 0]
    streams = {graph.ops[op].stream for op in ops}
    costs = []
    for stream in sorted(streams)[:most]:
        changed = play(graph, Change(free=(stream,)))
        if schedule.makespan - changed.makespan >= _LEAST_GAIN:
            costs.append(_cost_of_stream_order(graph, schedule, changed, stream))
    return costs


def _cost_of_stream_order(graph: Graph, schedule: Schedule, changed: Schedule, stream: StreamId) -> Cost:
    """Name the operation that waits the longest for another one that it does not need."""
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


def _work_on(path: list[int], graph: Graph, schedule: Schedule) -> Iterable[tuple[str, SiteId, int]]:
    """Return what is on the critical path, the longest first."""
    found: Counter[tuple[str, SiteId]] = Counter()
    for node in path:
        op = schedule.node_op[node]
        if op >= 0:
            found[graph.ops[op].operator, graph.ops[op].site] += graph.ops[op].nanoseconds
    return [(operator, site, taken) for (operator, site), taken in found.most_common()]


def _launching_on(path: list[int], schedule: Schedule) -> int:
    """Return how long the critical path waits for the host to launch something."""
    total = 0
    for node in path:
        op, before = schedule.node_op[node], schedule.node_before[node]
        if op >= 0:
            total += schedule.starts[op] - (schedule.node_time[before] if before >= 0 else 0)
    return total
