"""CUDA graphs: a capture runs nothing and is checked by its own engine; a replay is a single launch of the graph."""

from dataclasses import dataclass, field

from syncheck.hb.clock import HOST, TICK, VectorClock
from syncheck.hb.engine import Engine, Race
from syncheck.hb.ids import NO_VIEW, UNKNOWN_SITE, Access, Accesses, AllocationId, EventId, GraphId, SiteId, StreamId
from syncheck.rules import (
    capture_without_warmup,
    graph_result_overwritten,
    graph_uses_freed_memory,
    sync_in_capture,
)
from syncheck.sanitizer.collector import Collector, PendingFinding
from syncheck.sanitizer.graph_pools import OWN_POOL, GraphPools
from syncheck.sanitizer.messages import TensorCode, TensorRef, Text
from syncheck.semantics.operators import display_name, is_lazy

GRAPH_POOLS = -2
"""Pool ids of graphs count down from here; their memory stays with the graph, so later reuse is not a hazard."""


_BY_TORCH = ("torch/_inductor/",)
"""Graphs of compiled code: torch itself makes sure that no result in use is overwritten (cudagraph_trees.py)."""


@dataclass(slots=True)
class Graph:
    """A captured graph.

    Attributes:
        accesses: the distinct accesses of a replay, in the order of first use.
        owned: allocations made during the capture, which live in the graph's pool.
        used: allocations that it reads or writes.
        freed: allocation -> free site, for memory that the graph uses but does not own.
        made: allocation -> allocation site, for the same memory.
        waits: external events that a replay waits for.
        records: external events that a replay records.
        replayed: the clock that the next replay follows: that of the latest replay; None before the first.
    """

    site: SiteId
    accesses: dict[Access, None] = field(default_factory=dict)
    owned: set[AllocationId] = field(default_factory=set)
    used: set[AllocationId] = field(default_factory=set)
    freed: dict[AllocationId, SiteId] = field(default_factory=dict)
    made: dict[AllocationId, SiteId] = field(default_factory=dict)
    waits: dict[EventId, None] = field(default_factory=dict)
    records: dict[EventId, None] = field(default_factory=dict)
    replayed: VectorClock | None = None


@dataclass(slots=True)
class Capture:
    """A capture in progress, with its own engine over the same stream numbers."""

    ident: GraphId
    graph: Graph
    origin: StreamId
    engine: Engine
    streams: set[StreamId]
    events: set[EventId] = field(default_factory=set)


class Graphs:
    """Tracks captures and replays.

    Attributes:
        has_graphs: whether any graph has been or is being captured.
        capture: the capture in progress, if any.
        warm: operators that need a warm-up before a capture and have run.
        pools: the memory that graphs may share.
    """

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._graphs: dict[GraphId, Graph] = {}
        self.has_graphs = False
        self.capture: Capture | None = None
        self.warm: set[str] = set()
        self.pools = GraphPools()
        self._pooled: set[AllocationId] = set()  # live allocations in the pools of graphs
        self._users: dict[AllocationId, list[Graph]] = {}  # live allocation -> the graphs that use it

    def begin(self, graph: GraphId, stream: StreamId, site: SiteId, engine: Engine, pool: int = OWN_POOL) -> None:
        """Start a capture on a stream, with memory of a pool."""
        state = self._graphs[graph] = Graph(site)
        self.has_graphs = True
        self.capture = Capture(graph, state, stream, engine.clone_streams(), {stream})
        self.pools.begin(graph, pool)

    def end(self) -> tuple[StreamId, ...]:
        """End the capture; return the streams forked inside it that were not joined."""
        capture = self.capture
        if capture is None:
            return ()
        self.capture = None
        self.pools.end(capture.ident)
        for access in [
            a for a in capture.graph.accesses if a[0] in capture.graph.owned and a[0] in capture.graph.freed
        ]:
            del capture.graph.accesses[access]  # an intermediate result that nothing else can access
        joined = capture.engine.stream_covers
        return tuple(
            stream
            for stream in sorted(capture.streams - {capture.origin})
            if capture.engine.now(stream) >= TICK and not joined(capture.origin, capture.engine.now(stream))
        )

    def is_capturing(self, stream: StreamId) -> bool:
        """Return whether work on a stream is currently captured."""
        return self.capture is not None and stream in self.capture.streams

    def launch(self, stream: StreamId, operator: str, accesses: Accesses, label: int) -> list[Race]:
        """Record a captured launch; return the races between the graph's own branches."""
        capture = self.capture
        assert capture is not None  # only called while capturing
        for access in accesses:
            capture.graph.accesses[access] = None
            if access[0] not in capture.graph.used:
                capture.graph.used.add(access[0])
                self._users.setdefault(access[0], []).append(capture.graph)
            if not capture.engine.is_live(access[0]):
                capture.engine.allocate(access[0], HOST, 0, GRAPH_POOLS, 0)
        self._check_warm(operator, capture.graph)
        return capture.engine.launch(stream, accesses, label)

    def wait(self, event: EventId, stream: StreamId, *, is_recorded: bool, is_external: bool) -> bool:
        """Handle a stream's wait for an event; return whether it belongs to the capture and needs no further handling.

        A captured stream that waits for work outside the capture fails, and orders nothing.

        Source:
            CUDA Runtime API, cudaErrorStreamCaptureIsolation (905).
        """
        capture = self.capture
        if capture is None:
            return False
        if event in capture.events:
            capture.engine.wait(event, stream)
            capture.streams.add(stream)
            return True
        if stream not in capture.streams:
            return False
        if is_external:
            capture.graph.waits[event] = None
        return is_external or is_recorded

    def wait_stream(self, stream: StreamId, other: StreamId) -> bool:
        """Handle a stream's wait for another stream: see `wait`."""
        capture = self.capture
        if capture is None:
            return False
        if other in capture.streams:
            capture.engine.wait_stream(stream, other)
            capture.streams.add(stream)
        return stream in capture.streams

    def _check_warm(self, operator: str, graph: Graph) -> None:
        if is_lazy(operator) and operator not in self.warm:
            self.warm.add(operator)
            facts: dict[str, Text] = {"operator": (operator.removeprefix("aten::"),)}
            advice: Text = (
                "run the same work a few times before {line}, inside `with torch.cuda.stream(side):`, with "
                "`side.wait_stream(torch.cuda.current_stream())` before and "
                "`torch.cuda.current_stream().wait_stream(side)` after it",
            )
            self._collector.add(PendingFinding(capture_without_warmup.RULE, graph.site, facts, [], advice), id(graph))

    def note_run(self, operator: str) -> None:
        """Note that an operator ran outside a capture, which warms it up."""
        if is_lazy(operator):
            self.warm.add(operator)

    def allocated(self, allocation: AllocationId, home: StreamId, n_bytes: int) -> None:
        """Note that memory was allocated on a stream during the capture."""
        if self.capture is not None:
            self.pools.allocated(self.capture.ident, allocation, home, n_bytes)
            self.capture.graph.owned.add(allocation)
            self._pooled.add(allocation)

    def freed(self, allocation: AllocationId, site: SiteId, made_site: SiteId) -> None:
        """Note the free of memory, allocated at `made_site`, in the graphs that use it."""
        if self.capture is not None and allocation in self.capture.graph.owned:
            self.capture.graph.freed[allocation] = site
        if allocation in self._pooled:
            self._pooled.discard(allocation)
            self.pools.freed(allocation)
            self._users.pop(allocation, None)
            return  # the pool keeps it for its graphs, which may share the pool
        for graph in self._users.pop(allocation, ()):
            graph.freed[allocation] = site
            graph.made[allocation] = made_site

    def sync_in_capture(self, call: str, site: SiteId) -> None:
        """Report a host synchronization during a capture."""
        facts: dict[str, Text] = {"call": (display_name(call),)}
        related: list[tuple[SiteId, Text]] = []
        if self.capture is not None:
            related.append((self.capture.graph.site, ("the capture began here",)))
        self._collector.add(
            PendingFinding(
                sync_in_capture.RULE,
                site,
                facts,
                related,
                ("keep the value on the GPU, or move the call at {line} after the capture",),
            )
        )

    def external_events(self, graph: GraphId) -> tuple[list[EventId], list[EventId]]:
        """Return the external events that a replay waits for and those that it records."""
        state = self._graphs.get(graph)
        return ([], []) if state is None else (list(state.waits), list(state.records))

    def order_replay(self, graph: GraphId, stream: StreamId, engine: Engine) -> None:
        """Order a replay about to be submitted to a stream after the graph's latest replay.

        Source:
            CUDA Runtime API, cudaGraphLaunch: "Each launch is ordered behind both any previous work in stream and any
            previous launches of graphExec."
        """
        state = self._graphs.get(graph)
        if state is not None and state.replayed is not None:
            engine.follow(stream, state.replayed)

    def note_replay(self, graph: GraphId, stream: StreamId, engine: Engine) -> None:
        """Note that a replay was submitted to a stream."""
        state = self._graphs.get(graph)
        if state is not None:
            state.replayed = engine.clock(stream)

    def results(self, graph: GraphId) -> frozenset[AllocationId]:
        """Return the memory allocated in a capture that the program has not freed."""
        state = self._graphs.get(graph)
        return frozenset() if state is None else frozenset(state.owned & self._pooled)

    def result_kept(self, graph: GraphId, allocation: AllocationId, site: SiteId) -> None:
        """Report that the program collects a result of a graph, which the replay at a call site overwrites."""
        state = self._graphs.get(graph)
        if state is not None:
            facts: dict[str, Text] = {"tensor": (TensorRef(allocation, NO_VIEW),)}
            related: list[tuple[SiteId, Text]] = [(state.site, ("the graph was captured here",))]
            advice: Text = ("keep a copy of each result, with `.clone()`, after the replay at {line}",)
            pending = PendingFinding(
                graph_result_overwritten.RULE,
                site,
                facts,
                related,
                advice,
                allocation=allocation,
                exempt_paths=_BY_TORCH,
            )
            self._collector.add(pending, allocation)

    def replay(self, graph: GraphId, site: SiteId) -> list[Access]:
        """Return the accesses of a replay, and report freed memory."""
        state = self._graphs.get(graph)
        if state is None:
            return []
        gone = {
            access[0]: access[1]
            for access in state.accesses
            if access[0] in state.freed and access[0] not in state.owned
        }
        for allocation, view in gone.items():
            facts: dict[str, Text] = {"tensor": (TensorRef(allocation, view),)}
            related: list[tuple[SiteId, Text]] = [
                (state.freed[allocation], ("freed here",)),
                (state.site, ("the graph was captured here",)),
            ]
            tensor = TensorCode(allocation)
            kept: Text = ("keep `", tensor, "` alive as long as the graph is replayed")
            advice = (
                *kept,
                ", and change it in place (`",
                tensor,
                ".copy_(...)`): the graph uses no tensor that replaces it",
            )
            names = (state.freed[allocation], state.made.get(allocation, UNKNOWN_SITE))
            pending = PendingFinding(
                graph_uses_freed_memory.RULE, site, facts, related, advice, allocation=allocation, name_sites=names
            )
            self._collector.add(pending, state.freed[allocation])
        return [access for access in state.accesses if access[0] not in gone]


RULES = (
    capture_without_warmup.RULE,
    graph_result_overwritten.RULE,
    graph_uses_freed_memory.RULE,
    sync_in_capture.RULE,
)
"""The rules that this module reports."""
