"""Contents of the timeline of a run: lanes, boxes and arrows, as plain data."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from syncheck.findings import Finding, Location, Report
from syncheck.hb.clock import HOST
from syncheck.hb.ids import SiteId, StreamId
from syncheck.overlap.analysis import Analysis
from syncheck.overlap.ids import EdgeId, OpId, SlotId
from syncheck.overlap.model import Graph, StepKind
from syncheck.overlap.report import OverlapReport
from syncheck.overlap.schedule import Schedule
from syncheck.overlap.usage import ops_by_stream, ran
from syncheck.overlap.wording import Wording

MAX_BOXES = 100_000
"""Maximum number of operations drawn. If there are more: those with drawn arrows, critical ones, and the longest."""
_MAX_ARROWS = 20_000
_LAUNCHING = "launches work"


@dataclass(frozen=True, slots=True)
class Lane:
    """A row of the timeline: a stream or the host. `device` is -1 for the host."""

    name: str
    device: int


@dataclass(frozen=True, slots=True)
class Box:
    """A span of time, in nanoseconds from the start of the program."""

    lane: int
    start: int
    end: int
    name: str
    site: SiteId
    n_bytes: int = 0
    flops: int = 0
    is_critical: bool = False


@dataclass(frozen=True, slots=True)
class Arrow:
    """An edge between two boxes.

    Attributes:
        waits: how long the target was idle because of the edge.
        is_missing: whether the edge does not exist and a finding says that it should.
    """

    source: int
    target: int
    text: str
    waits: int = 0
    is_critical: bool = False
    is_missing: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """A finding at a box, or at -1 if no box belongs to its line."""

    box: int
    finding: Finding


@dataclass(frozen=True, slots=True)
class Timeline:
    """A timeline.

    Attributes:
        locations: call site -> its place.
        report: why the work does not overlap, in words.
        operations: total number of operations, drawn or not.
    """

    lanes: tuple[Lane, ...]
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    marks: tuple[Mark, ...]
    locations: dict[SiteId, Location]
    report: OverlapReport
    operations: int
    notes: tuple[str, ...] = field(default=())


def make(analysis: Analysis, overlap_report: OverlapReport, wording: Wording, findings: Report) -> Timeline:
    """Return the timeline of a run."""
    return _Builder(analysis, wording).make(overlap_report, findings)


class _Builder:
    """Builds the timeline of a run."""

    def __init__(self, analysis: Analysis, wording: Wording) -> None:
        self._graph: Graph = analysis.graph
        self._schedule: Schedule = analysis.schedule
        self._wording = wording
        path = analysis.schedule.critical_nodes()
        self._critical_ops = {analysis.schedule.node_op[node] for node in path} - {-1}
        self._critical_edges = {analysis.schedule.node_edge[node] for node in path} - {-1}
        self._streams = list(ops_by_stream(analysis.graph))
        self._lane_of = {stream: lane for lane, stream in enumerate(self._by_device(), 1)}
        self._boxes: list[Box] = []
        self._box_of: dict[OpId, int] = {}
        self._box_of_wait: dict[EdgeId, int] = {}

    def _by_device(self) -> list[StreamId]:
        return sorted(self._streams, key=lambda stream: (self._graph.streams[stream].device, stream))

    def make(self, overlap_report: OverlapReport, findings: Report) -> Timeline:
        links = sorted(_links(self._graph), key=self._importance)
        self._add_host()
        drawn = self._ops_to_draw(links[:_MAX_ARROWS])
        for op in drawn:
            self._add_op(op)
        arrows = [*self._arrows(links[:_MAX_ARROWS])]
        marks = [Mark(self._first_box_at(finding.location), finding) for finding in findings.findings]
        arrows += self._missing_edges(marks)
        locations = {box.site: self._wording.location(box.site) for box in self._boxes}
        lanes = (Lane("host", -1), *(self._lane(stream) for stream in self._by_device()))
        total = len(self._graph.ops)
        notes = tuple(_notes(total, len(drawn), len(links)))
        return Timeline(
            lanes,
            tuple(self._boxes),
            tuple(arrows),
            tuple(marks),
            locations,
            overlap_report,
            total,
            (*notes, *overlap_report.notes),
        )

    def _lane(self, stream: StreamId) -> Lane:
        return Lane(self._wording.stream(stream), self._graph.streams[stream].device)

    # -- boxes

    def _add_host(self) -> None:
        """Draw the launches and waits of the host, unless times were measured: there are none for the host."""
        if self._graph.measured:
            return
        now = 0
        for begin, end, edge in self._schedule.host_waits:
            self._add_launching(now, begin)
            self._box_of_wait[edge] = len(self._boxes)
            text = self._wording.edge(self._graph.edges[edge])
            is_critical = edge in self._critical_edges
            self._boxes.append(Box(0, begin, end, text, self._graph.edges[edge].site, is_critical=is_critical))
            now = end
        self._add_launching(now, max(self._schedule.starts, default=0))

    def _add_launching(self, begin: int, end: int) -> None:
        if end > begin:
            self._boxes.append(Box(0, begin, end, _LAUNCHING, SiteId(0)))

    def _add_op(self, op: OpId) -> None:
        operation = self._graph.ops[op]
        start, end = ran(self._graph, self._schedule, op)
        self._box_of[op] = len(self._boxes)
        self._boxes.append(
            Box(
                self._lane_of[operation.stream], start, end, operation.operator, operation.site, operation.n_bytes,
                operation.flops, op in self._critical_ops,
            )
        )  # fmt: skip

    def _ops_to_draw(self, links: list["_Link"]) -> list[OpId]:
        """Return the operations to draw: all, or the ends of arrows, the critical ones and the longest."""
        ops = self._graph.ops
        if len(ops) <= MAX_BOXES:
            return list(range(len(ops)))
        ends = dict.fromkeys(op for link in links for op in (link.source, link.target) if op >= 0)
        longest = sorted(range(len(ops)), key=lambda op: -ops[op].nanoseconds)
        wanted = dict.fromkeys([*ends, *sorted(self._critical_ops), *longest])
        return sorted(list(wanted)[:MAX_BOXES])

    # -- arrows

    def _importance(self, link: "_Link") -> tuple[bool, int]:
        return link.edge not in self._critical_edges, -self._schedule.stalls.get(link.edge, 0)

    def _arrows(self, links: list["_Link"]) -> Iterator[Arrow]:
        for link in links:
            source = self._box_of.get(link.source, -1)
            target = self._box_of_wait.get(link.edge, -1) if link.target < 0 else self._box_of.get(link.target, -1)
            if source >= 0 and target >= 0:
                text = self._wording.edge(self._graph.edges[link.edge])
                waits = self._schedule.stalls.get(link.edge, 0)
                yield Arrow(source, target, text, waits, link.edge in self._critical_edges)

    # -- findings

    def _first_box_at(self, location: Location) -> int:
        return next((box for box in self._boxes_at(location)), -1)

    def _boxes_at(self, location: Location) -> list[int]:
        if not hasattr(self, "_lines"):
            self._lines: dict[tuple[str, int], list[int]] = {}
            for number, box in enumerate(self._boxes):
                frame = self._wording.location(box.site).frame
                self._lines.setdefault((frame.path, frame.line), []).append(number)
        return self._lines.get((location.frame.path, location.frame.line), [])

    def _missing_edges(self, marks: list[Mark]) -> Iterator[Arrow]:
        """Yield the missing edges, each from the other location of a race to the location of the finding."""
        for mark in marks:
            family = mark.finding.rule.code[3]
            related = mark.finding.related
            others = self._boxes_at(related[0]) if related and family in "12" else []
            target = next(
                (box for box in self._boxes_at(mark.finding.location) if others and box > others[0]), mark.box
            )
            source = next((box for box in reversed(others) if box < target), others[0] if others else -1)
            if source >= 0 and target >= 0 and source != target:
                yield Arrow(source, target, f"missing: {mark.finding.message}", is_missing=True)


def _notes(total: int, drawn: int, links: int) -> Iterator[str]:
    if drawn < total:
        yield f"{drawn:,} of {total:,} operators are drawn: the longest and those that others wait for"
    if links > _MAX_ARROWS:
        yield f"{_MAX_ARROWS:,} of {links:,} edges are drawn: the most costly ones"


@dataclass(frozen=True, slots=True)
class _Link:
    """An edge between two operations; `target` is -1 for the host."""

    edge: EdgeId
    source: OpId
    target: OpId


def _links(graph: Graph) -> Iterator[_Link]:
    """Yield each edge with the operation before it and the first one after it, where these exist."""
    last: dict[int, OpId] = {}
    recorded: dict[SlotId, OpId] = {}
    pending: dict[int, list[tuple[EdgeId, OpId]]] = {}
    for kind, first, stream, slot in graph.steps:
        match kind:
            case StepKind.RUN:
                last[stream] = first
                for edge, source in pending.pop(stream, ()):
                    yield _Link(edge, source, first)
            case StepKind.RECORD:
                recorded[first] = last.get(stream, -1)
            case StepKind.WAIT if recorded[slot] >= 0:
                pending.setdefault(stream, []).append((first, recorded[slot]))
            case StepKind.HOST if recorded[slot] >= 0 and stream == HOST:
                yield _Link(first, recorded[slot], -1)
