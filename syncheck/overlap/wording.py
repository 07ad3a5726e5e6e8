"""Text of an analysis."""

from collections.abc import Iterator
from itertools import pairwise

from syncheck.findings import UNKNOWN, Location, counted
from syncheck.hb.ids import NO_ALLOCATION, NO_EVENT, NO_VIEW, AllocationId, EventId, NamedKind, SiteId, StreamId, ViewId
from syncheck.overlap import cost as model
from syncheck.overlap.analysis import Analysis, Cost
from syncheck.overlap.critical_path import Link, LinkKind
from syncheck.overlap.ids import EdgeId
from syncheck.overlap.model import Edge, EdgeKind, Graph, Need
from syncheck.overlap.pairs import Pair
from syncheck.overlap.report import STREAM_ORDER, EdgeLine, LinkLine, OverlapReport, PairLine, UsageLine, WorkLine
from syncheck.overlap.verdicts import verdicts
from syncheck.sanitizer.messages import Names
from syncheck.sanitizer.monitor import Sites

_MAX_WORK = 12
_MIN_GAIN = 1.005

_TEXTS = {
    EdgeKind.PEER_BEFORE: "before a copy between GPUs, {waiter} waits for {source}",
    EdgeKind.PEER_AFTER: "after a copy between GPUs, {waiter} waits for {source}",
    EdgeKind.NULL_STREAM: "a copy between GPUs on the default stream runs alone: {waiter} waits for {source}",
    EdgeKind.LEGACY: "{waiter} implicitly waits for {source}",
    EdgeKind.TORCH: "torch makes {waiter} wait for {source}",
    EdgeKind.HOST_READ: "reading a value makes the host wait for {source}",
    EdgeKind.HOST_COPY: "a copy from host memory makes the host wait for {source}",
}

_ADVICE = {
    EdgeKind.PEER_BEFORE: "make a side stream of the other device current for the copy as well",
    EdgeKind.PEER_AFTER: "make a side stream of the other device current for the copy as well",
    EdgeKind.NULL_STREAM: "make side streams of both devices current for the copy",
    EdgeKind.LEGACY: "use a stream created with torch.cuda.Stream()",
    EdgeKind.HOST_READ: "keep the value on the GPU and read it once at the end",
    EdgeKind.HOST_COPY: "pin the memory and copy with non_blocking=True",
    EdgeKind.HOST_DEVICE: "wait for a single stream or event where the result is needed",
}


class Wording:
    """Turns an analysis into text.

    Args:
        graph: the analyzed graph.
        names: the names that the program gives to its objects.
        sites: converts call sites to locations.
    """

    def __init__(self, graph: Graph, names: Names, sites: Sites) -> None:
        self._graph = graph
        self._names = names
        self._names.sites = sites
        self._sites = sites
        self._locations: dict[SiteId, Location] = {}
        self._following: dict[AllocationId, AllocationId] = {}

    def stream(self, stream: StreamId) -> str:
        """Return the text for a stream; "the host" for 0."""
        return self._names.stream(stream)

    def device(self, number: int) -> str:
        """Return torch's name for a GPU."""
        return self._names.device(number)

    def tensor(self, allocation: AllocationId, view: ViewId) -> str:
        """Return the text for a tensor, by its own name or the one that its memory was bound to."""
        key = (NamedKind.ALLOCATION, allocation)
        info = self._graph.allocations.get(allocation)
        if key not in self._names.given and info is not None and self._is_bound(allocation):
            bound = self._sites.bound(info.site)
            if bound:
                return f"`{bound}`"
        return self._names.tensor(allocation, view)

    def _is_bound(self, allocation: AllocationId) -> bool:
        """Return whether a source line binds this allocation to a name. It binds the last one that it makes."""
        made = self._graph.allocations
        if not self._following:
            ordered = sorted(made)
            self._following.update(pairwise(ordered))
        following = made.get(self._following.get(allocation, NO_ALLOCATION))
        if following is None or following.site == made[allocation].site:
            return True
        return self.at(self.location(following.site)) != self.at(self.location(made[allocation].site))

    def edge(self, edge: Edge) -> str:
        """Return the text for an edge."""
        text = _TEXTS.get(edge.kind)
        if edge.kind in {EdgeKind.EVENT, EdgeKind.HOST_EVENT}:
            name = self._names.given.get((NamedKind.EVENT, edge.event))
            text = "{waiter} waits for " + (f"event `{name}`" if name else "an event") + " recorded on {source}"
        if edge.kind is EdgeKind.HOST_DEVICE:
            text = f"the host waits for all work on {self.device(self._graph.streams[edge.source].device)}"
        return (text or "{waiter} waits for {source}").format(
            waiter=self.stream(edge.waiter), source=self.stream(edge.source)
        )

    def need(self, need: Need | None) -> str:
        """Return the text for why an edge is needed."""
        if need is None:
            return "not needed"
        tensor = self.tensor(need.allocation, need.view if need.why != "memory" else NO_VIEW)
        match need.why:
            case "clock":
                return f"needed for the clock reading at {self.at(self.location(need.site))}"
            case "value":
                return f"needed because the host reads {tensor}" if need.allocation else "needed by the host"
            case "copy":
                return "needed because the memory is not pinned or the copy is blocking"
            case "memory":
                return f"needed because the memory of {tensor} is reused"
            case _:
                pass
        verb = "written" if need.why == "writes" else "read"
        site = self._graph.ops[need.op].site if need.op >= 0 else need.site
        by = "" if need.op >= 0 else " by the host"
        return f"needed because {tensor} is {verb}{by} at {self.at(self.location(site))}"

    def location(self, site: SiteId) -> Location:
        """Return the location of a call site."""
        if site not in self._locations:
            self._locations[site] = self._sites.location(site)
        return self._locations[site]

    def at(self, location: Location) -> str:
        """Return a location as "path:line"."""
        return f"{location.frame.path}:{location.frame.line}" if location.frame.line else "an unknown line"

    def edge_and_location(self, edge: EdgeId) -> tuple[str, Location]:
        """Return the text for an edge, and the location where it was created."""
        edge_info = self._graph.edges[edge]
        return self.edge(edge_info), self.location(edge_info.site)

    # -- the lines of the report

    def cost(self, cost: Cost, makespan: int) -> EdgeLine:
        """Return the text for the cost of edges."""
        if cost.kind is None:
            text = f"{self.stream(cost.waiter)} runs its operations one after another"
            before = self.at(self.location(cost.other_site))
            need = f"not needed: independent of {before}"
            advice = "put independent work on a separate stream"
        else:
            edge = Edge(cost.kind, cost.site, cost.waiter, cost.source, self._event_of(cost), cost.other_site)
            advice = self._advice(cost) if self._may_gain(cost, makespan) else ""
            text, need = self.edge(edge), self.need(cost.need)
        return EdgeLine(
            cost.kind.value if cost.kind is not None else STREAM_ORDER,
            text,
            self.location(cost.site),
            cost.count,
            cost.stalled,
            cost.on_path,
            need,
            cost.need is not None,
            makespan / cost.makespan if cost.makespan else 1.0,
            advice,
        )

    def _may_gain(self, cost: Cost, makespan: int) -> bool:
        """Return whether a change may make the program faster, as far as that was computed."""
        is_host_need = cost.need is not None and cost.need.why in {"value", "copy"}
        return is_host_need or cost.need is None or makespan > cost.makespan * _MIN_GAIN

    def _event_of(self, cost: Cost) -> EventId:
        found = (
            e.event for e in self._graph.edges if (e.kind, e.site, e.waiter) == (cost.kind, cost.site, cost.waiter)
        )
        return next(found, NO_EVENT)

    def _advice(self, cost: Cost) -> str:
        assert cost.kind is not None, "stream order has its own advice"
        need = cost.need
        if need is None:
            return _ADVICE.get(cost.kind, "remove it")
        if need.op >= 0:
            where = self.at(self.location(self._graph.ops[need.op].site))
            if cost.kind in _ADVICE:
                return f"{_ADVICE[cost.kind]}; then wait just before {where}"
            return f"move the wait to just before {where}"
        return _ADVICE.get(cost.kind, "") if need.why in {"value", "copy"} else ""

    def pair(self, pair: Pair, *, is_devices: bool) -> PairLine:
        """Return the text for the overlap of two streams or devices."""
        first, second = (
            (self.device(pair.first), self.device(pair.second))
            if is_devices
            else (self.stream(StreamId(pair.first)), self.stream(StreamId(pair.second)))
        )
        blocking_edges = tuple(dict.fromkeys(map(self.edge_and_location, pair.blocking_edges)))
        return PairLine(first, second, pair.free, pair.overlapped, pair.measured, is_devices, blocking_edges)

    def uses(self, analysis: Analysis) -> Iterator[UsageLine]:
        """Yield the usage of devices and streams."""
        for use in analysis.devices:
            yield UsageLine(self.device(use.device), use.device, use.operations, use.work, use.idle, is_device=True)
            for stream in analysis.streams:
                if stream.device == use.device:
                    yield UsageLine(
                        self.stream(stream.stream),
                        stream.device,
                        stream.operations,
                        stream.work,
                        stream.idle,
                        is_device=False,
                    )

    def link(self, link: Link) -> LinkLine:
        """Return the text for a part of the critical path."""
        ops = self._graph.ops
        match link.kind:
            case LinkKind.WORK:
                name = ops[link.longest].operator
                some = name if link.count == 1 else f"{counted(link.count, 'operation')}, the longest {name}"
                return LinkLine(
                    f"{self.stream(link.stream)}: {some}", self.location(ops[link.longest].site), link.nanoseconds
                )
            case LinkKind.WAIT:
                edge = self._graph.edges[link.edge]
                need = self._graph.needs.get(link.edge)
                text, location = self.edge(edge), self.location(edge.site)
                return LinkLine(text, location, link.nanoseconds, self.need(need), need is not None, is_edge=True)
            case LinkKind.ORDER:
                text = f"the order within {self.stream(link.stream)}"
                need_text = f"not needed: independent of {self.at(self.location(ops[link.first].site))}"
                return LinkLine(
                    text, self.location(ops[link.last].site), link.nanoseconds, need_text, is_needed=False, is_edge=True
                )
            case LinkKind.LAUNCH:
                return LinkLine("the host launches work", UNKNOWN, link.nanoseconds)
            case _:
                return LinkLine(f"... {counted(link.count, 'shorter part')} ...", UNKNOWN, link.nanoseconds)

    def work(self, analysis: Analysis) -> Iterator[WorkLine]:
        """Yield the operations that make the critical path long."""
        for operator, site, nanoseconds in analysis.path[:_MAX_WORK]:
            yield WorkLine(operator, self.location(site), nanoseconds)


def report(analysis: Analysis, names: Names, sites: Sites, backend: str) -> OverlapReport:
    """Return an analysis as text."""
    graph, wording = analysis.graph, Wording(analysis.graph, names, sites)
    pairs = (
        *(wording.pair(pair, is_devices=True) for pair in analysis.device_pairs),
        *(wording.pair(pair, is_devices=False) for pair in analysis.pairs),
    )
    edges = tuple(wording.cost(cost, analysis.makespan) for cost in analysis.costs)
    return OverlapReport(
        backend,
        describe_times(graph),
        len(graph.ops),
        analysis.makespan,
        analysis.shortest,
        verdicts(analysis, pairs, edges, wording.need, wording.device),
        tuple(wording.uses(analysis)),
        pairs,
        edges,
        tuple(map(wording.link, analysis.links)),
        tuple(wording.work(analysis)),
        tuple(_notes(graph)),
        names.device_type,
    )


def describe_times(graph: Graph) -> str:
    """Return the source of the times."""
    if not graph.measured:
        return f"not measured; estimated with a cost model ({model.DESCRIPTION})"
    if graph.measured >= len(graph.ops):
        return "measured with CUDA events around each operator"
    left = len(graph.ops) - graph.measured
    return f"measured with CUDA events around each operator, except for {left:,} of {len(graph.ops):,}"


def _notes(graph: Graph) -> Iterator[str]:
    if graph.elided:
        yield f"{graph.elided:,} operators were not recorded individually: record the run with --times"
    if graph.left_out and not graph.is_timing_complete:
        yield (
            f"the first {len(graph.ops):,} operators were measured and are shown; {graph.left_out:,} more were only "
            "checked (raise --timed-operators, or measure later ones with --steps 10:20)"
        )
    elif graph.left_out:
        yield f"the last {graph.left_out:,} operators were left out because there are too many"
    if graph.replays:
        yield "a CUDA graph replay counts as one operation that takes as long as all of its operators together"
    yield from graph.notes
