"""Model of the GPUs for static analysis: reports what the interpreted calls do to a sanitizer session."""

import ast
from collections.abc import Iterable

from syncheck.hb.clock import HOST
from syncheck.hb.ids import (
    BY_TORCH,
    NO_ALLOCATION,
    NO_VIEW,
    UNKNOWN_SITE,
    Access,
    AllocationId,
    EventId,
    GraphId,
    NamedKind,
    ObjectKind,
    ReadingId,
    SiteId,
    StreamId,
    ViewId,
    WaitCall,
)
from syncheck.lint.interp.active_loops import ActiveLoops
from syncheck.lint.interp.earlier_work import EarlierWork
from syncheck.lint.interp.graph_results import GraphResults
from syncheck.lint.interp.imported_calls import ImportedCalls
from syncheck.lint.interp.joins import Joins
from syncheck.lint.interp.life import Life
from syncheck.lint.interp.parts import N_BYTES, Parts
from syncheck.lint.interp.recent_work import QUICK, RecentWork
from syncheck.lint.interp.self_waits import SelfWaits
from syncheck.lint.interp.sites import SourceSites
from syncheck.lint.interp.unknown import computes, is_on_host
from syncheck.lint.interp.values import UNKNOWN_STREAM, Block, Call, ClockReading, Event, Graph, Stream, Tensor
from syncheck.lint.lifetimes import weakly
from syncheck.sanitizer.collector import PendingFinding
from syncheck.sanitizer.session import Session
from syncheck.semantics.threads import ThreadState, context_of, take_lost_stream
from syncheck.source.expressions import arguments_of

N_DEVICES = 8
UNKNOWN_POOL = -3

TensorAccess = tuple[Tensor, bool]
"""A tensor, and whether it is written."""


class Machine:
    """Streams, events and memory.

    Attributes:
        session: performs the checks.
        self_waits, graph_results: report streams that wait for their own events, and overwritten results of graphs.
        joins: waits of streams for each other.
        findings, named: the findings reported so far; the allocations in them whose names are known.
        calls: the active calls of the program's functions, outermost first, each with the function that contains it.
        n_relevant: number of operations that could lead to a finding, also in branches run only for order.
        ordering_only: above 0 while a branch is run only for what it orders. Nothing accesses memory then.
        function, called_later: name of the running function; functions that are interpreted later in any case.
        hooks, hooks_may_wait: the calls that have registered hooks; whether hooks of unknown layers may wait.
        thread: state of the running thread: current device, streams and contexts.
        streams, computing: device and handle of each stream, by its id; the streams that ran more than copies.
        imported, loops: calls of functions of other files; the loops being iterated.
        earlier: runs work that was complete before the interpreted function began.
        guesses: call sites of unknown code that may have left work running -> whether its name suggests so.
        assumed_copies: call sites of copies whose source is assumed to be on a GPU.
        moves: call sites that move something to a GPU, judging by the name of the called function.
        of_callers: (beginning of rule codes, site) -> what findings of these rules about the site assume of callers.
        unsure: sites that have waited for an event that is or may be recorded; UNKNOWN_SITE if any event may be.

    Args:
        selected: codes of the rules to report.
        sites: the call sites.
    """

    def __init__(self, selected: frozenset[str], sites: SourceSites) -> None:
        self.findings, self.named = list[PendingFinding](), set[AllocationId]()
        self.calls, self.imported, self.loops = list[tuple[ast.AST, str]](), ImportedCalls(), ActiveLoops()
        note = weakly(self._note_finding)  # a reference cycle would keep both alive
        self.session = Session(lambda rule: rule.code in selected, "the source", note, is_run=False)
        self.stream_names, self.computing, self.earlier = dict[StreamId, str](), set[StreamId](), EarlierWork()
        self.ordering_only = self.n_relevant = self._n_idents = 0
        self.sites, self.function, self.called_later, self.hooks = sites, "", frozenset[ast.AST](), list[Call]()
        self.unsure, self.assumed_copies, self.moves = set[SiteId](), set[SiteId](), set[SiteId]()
        self.of_callers, self.hooks_may_wait = dict[tuple[str, SiteId], str](), False
        self.guesses, self._unknown_devices, self.parts = dict[SiteId, bool](), set[str](), Parts(self.session)
        self.joins, self.recent, self.view = Joins(), RecentWork(self.session), self.parts.view
        self.self_waits, self.graph_results = SelfWaits(self.session.collector), GraphResults(self.session.collector)
        self.thread = self._main_thread = ThreadState()
        self.current_node: ast.AST = ast.Pass(lineno=1, col_offset=0)
        self.streams: list[tuple[int, int]] = [(-1, 0)]  # id -> (device, handle)
        self._defaults = [self._add_stream(device, 0, UNKNOWN_SITE) for device in range(N_DEVICES)]

    # -- locations and ids

    def site(self, node: ast.AST | None = None) -> SiteId:
        """Return the call site of a node or of the running statement; in another file, of the call in this file."""
        return self.sites.id_of(*self.imported.seen_from(node or self.current_node, self.function))

    def next_ident(self) -> int:
        """Return a new id for an event, an allocation or a graph."""
        self._n_idents += 1
        return self._n_idents

    def _note_finding(self, finding: PendingFinding) -> None:
        self.findings.append(finding)
        self.sites.note_finding(finding, self.imported.callers(self.calls))
        self.imported.note(finding, self.site())

    # -- streams

    def _add_stream(self, device: int, handle: int, site: SiteId) -> StreamId:
        stream = StreamId(len(self.streams))
        self.streams.append((device, handle))
        self.session.stream(stream, device, handle, site, legacy=handle == 0, blocking=False)
        return stream

    def add_stream(self, device: int) -> StreamId:
        """Add a stream that torch creates internally."""
        return self._add_stream(device, len(self.streams), UNKNOWN_SITE)

    def new_stream(self, device: int, node: ast.AST, *, is_made: bool = True) -> Stream:
        """Create a stream."""
        self.n_relevant += 1
        site = self.site(node)
        ident = self._add_stream(device, len(self.streams), site)
        return Stream(ident, device, life=self.life(ObjectKind.STREAM, site) if is_made and self.loops else None)

    def life(self, kind: ObjectKind, site: SiteId) -> Life | None:
        """Report the creation of a stream or a timing event. The result reports the end when it is destroyed."""
        if self.ordering_only:
            return None
        ident = self.next_ident()
        self.session.object_created(kind, ident, site)
        return Life(lambda: self.session.object_destroyed(kind, ident))

    def device_of(self, stream: StreamId) -> int:
        """Return a stream's device."""
        return self.streams[stream][0]

    def handle_of(self, stream: StreamId) -> int:
        """Return a stream's handle; 0 for a default stream."""
        return self.streams[stream][1]

    def default_stream(self, device: int) -> StreamId:
        """Return a device's default stream."""
        return self._defaults[device]

    @property
    def device(self) -> int:
        """The current device, for calls that omit the index."""
        self.thread.implicit_device = True
        return self.thread.device

    def only_device(self, node: ast.AST) -> int | None:
        """Return the current device for a call that names an unknown device; None if several such devices are named.

        A program that names only `self.device` has one device. A program that names two has two.
        """
        if isinstance(node, ast.Call):
            self._unknown_devices.update(ast.unparse(value).rpartition(".")[2] for value in arguments_of(node))
        return self.thread.device if len(self._unknown_devices) <= 1 else None

    def current(self, device: int) -> StreamId:
        """Return the current stream of a device; UNKNOWN_STREAM if unknown."""
        return self.thread.streams.get(device, self.default_stream(device))

    # -- order

    def assume_synchronized(self) -> None:
        """Assume that all work so far is complete, since unknown code may have waited for it."""
        self.session.complete_all()

    def wait_stream(self, waiter: Stream, awaited: Stream, node: ast.AST) -> None:
        """Make a stream wait for another stream."""
        if not (waiter.ident and awaited.ident):
            self.assume_synchronized()
            return
        self.joins.note_wait_stream(waiter.ident, awaited.ident, self._n_idents)
        device = waiter.device if waiter.origin else awaited.device
        origins = (waiter.origin, awaited.origin)
        self.session.wait_stream(waiter.ident, awaited.ident, self.site(node), origins, self.current(device))

    def join(self, waiter: StreamId, awaited: StreamId) -> None:
        """Make a stream wait for another stream, as torch does internally."""
        if waiter and awaited and waiter != awaited:
            self.session.wait_stream(waiter, awaited, UNKNOWN_SITE, BY_TORCH)

    def record(self, event: Event, stream: Stream | None, node: ast.AST) -> None:
        """Record an event."""
        target = stream or Stream(self.current(self.device), self.device)
        if (event.escaped and event.has_timing is None) or not target.ident:
            event.escaped = True
            return
        site, placed = self.site(node), self.earlier.placed(target.ident, self)
        event.escaped, event.recorded = False, (target.ident, site, self.function)
        self.joins.note_record(event.ident, target.ident, self._n_idents)
        self.session.record(event.ident, placed, site, target.origin, self.current(target.device))

    def wait(self, event: Event, stream: Stream | None, via: WaitCall, node: ast.AST) -> None:
        """Make a stream wait for an event."""
        site, target = self.site(node), stream or Stream(self.current(self.device), self.device)
        is_at_construction = any(function == "__init__" for _, function in self.calls)  # other methods record later
        if event.escaped or event.recorded is not None or event.made is None or not target.ident or is_at_construction:
            self.unsure.add(site)
        if event.escaped or not target.ident:
            self.assume_synchronized()
            return
        self.joins.note_wait(target.ident, event.ident)
        if event.recorded is not None and event.has_timing is False and not self.is_capturing():
            self.self_waits.note(event, target, site, self.function, is_followed=not self.ordering_only)
        self.session.wait(event.ident, target.ident, site, via, target.origin, self.current(target.device))

    # -- host

    def is_capturing(self) -> bool:
        """Return whether the current stream is being captured."""
        current = self.current(self.thread.device)
        return bool(current and self.session.capturing(current))

    def sync_event(self, event: Event, node: ast.AST) -> None:
        """Make the host wait for an event."""
        event.is_useful = True
        if self._refused("Event.synchronize()", node):
            return
        if event.escaped or event.recorded is not None or event.made is None:
            self.unsure.add(self.site(node))
        if event.escaped:
            self.assume_synchronized()
        else:
            self.session.sync_event(event.ident, self.site(node))

    def sync_stream(self, stream: StreamId, node: ast.AST, *, explicit: bool, call: str = "") -> None:
        """Make the host wait for a stream; `call`: the call that does so, if it is not the node."""
        if not stream:
            self.assume_synchronized()
        elif not self._refused("Stream.synchronize()" if explicit else call, node):
            self.session.sync_stream(stream, self.site(node), explicit=explicit)
            self.recent.note_wait([stream], is_explicit=explicit)

    def sync_device(self, device: int, node: ast.AST) -> None:
        """Make the host wait for a device."""
        if not self._refused("torch.cuda.synchronize()", node):
            self.session.sync_device(device, self.site(node))
            of_device = (StreamId(i) for i, (own, _) in enumerate(self.streams) if own == device)
            self.recent.note_wait(of_device, is_explicit=True)

    def _refused(self, call: str, node: ast.AST) -> bool:
        if self.is_capturing():
            name = f"{ast.unparse(node.func)}()" if isinstance(node, ast.Call) else ast.unparse(node)
            self.session.sync_in_capture(call or name, self.site(node))
        return self.is_capturing()

    def read_clock(self, node: ast.AST) -> ClockReading:
        """Read a host clock."""
        self.n_relevant += 1
        reading, site = ClockReading(ReadingId(self.next_ident())), self.site(node)
        if not self.ordering_only and not self.recent.is_next_to_nothing():
            self.session.clock(reading.ident, site)
        self.recent.begin(site, reading.ident if self.imported.running is None else None)
        return reading

    def subtract_clock(self, later: ClockReading, earlier: ClockReading) -> None:
        """Subtract one clock reading from another."""
        if not self.ordering_only:
            self.session.clock_difference(earlier.ident, later.ident)
            self.recent.early.subtract(earlier.ident, later.ident)

    # -- objects

    def new_event(self, node: ast.AST, *, timing: bool, external: bool = False) -> Event:
        """Create an event."""
        self.n_relevant += 1
        event, site = Event(EventId(self.next_ident())), self.site(node)
        self.session.event(event.ident, site, timing=timing, external=external)
        event.life = self.life(ObjectKind.TIMING_EVENT, site) if timing and self.loops.around(node) else None
        self.name_new(NamedKind.EVENT, event.ident, node)
        return event

    def new_graph(self) -> Graph:
        """Create a CUDA graph."""
        return Graph(GraphId(self.next_ident()))

    def name_new(self, kind: NamedKind, ident: int, node: ast.AST) -> None:
        """Give a new object the name of the variable that it is bound to; none while code of another file runs."""
        name = self.sites.bound_directly(self.site(node)) if self.imported.running is None else ""
        if name and "[...]" not in name:
            self.session.name(kind, ident, name)
            if kind is NamedKind.STREAM:
                self.stream_names[StreamId(ident)] = name

    # -- memory

    def allocate(self, device: int | None, node: ast.AST, *, is_pinned: bool = False) -> Block:
        """Allocate a block; `device` is None for the host."""
        if self.ordering_only or (device is None and not is_pinned):
            return Block(NO_ALLOCATION, device, is_pinned=is_pinned, died=self._died)
        ident = AllocationId(self.next_ident())
        home = HOST if device is None else self.earlier.placed(self.current(device), self)
        is_lost = device is not None and not home  # on an unknown stream
        owner = self.default_stream(device) if device is not None and is_lost else home
        self.session.allocate(ident, owner, N_BYTES, UNKNOWN_POOL if is_lost else 0, self.site(node))
        self.session.describe_allocation(ident, NO_VIEW)
        block = Block(ident, device, is_pinned=is_pinned, died=self._died)
        block.escaped = is_lost
        return block

    def _died(self, block: Block) -> None:
        if block.ident:
            self.sites.flows.freed(block)
            self.session.free(block.ident, self.site())

    def release(self, block: Block) -> None:
        """Free a block's memory while tensors still refer to it."""
        block.escaped = True
        self._died(block)
        block.ident = NO_ALLOCATION

    def accesses(self, touched: Iterable[TensorAccess]) -> list[Access]:
        """Convert accesses to tensors to the session's accesses."""
        kept: dict[tuple[AllocationId, ViewId], bool] = {}
        for tensor, is_write in touched:
            block = tensor.block
            if block.ident and not block.escaped:
                key = (block.ident, self.view(tensor.part, is_write=is_write))
                kept[key] = is_write or kept.get(key, False)
        return [(allocation, view, is_write) for (allocation, view), is_write in kept.items()]

    def launch(
        self,
        stream: StreamId,
        operator: str,
        touched: Iterable[TensorAccess],
        node: ast.AST,
        other_device: int | None = None,
    ) -> None:
        """Run an operator on a stream.

        Args:
            stream: the stream; UNKNOWN_STREAM if unknown.
            operator: the operator's name, such as "aten::add".
            touched: the tensors that it reads and writes.
            node: the call.
            other_device: a second device that the operator involves.
        """
        touched = list(touched)
        if self.ordering_only:
            return
        if stream == UNKNOWN_STREAM:
            for tensor, is_write in touched:
                tensor.block.escaped |= is_write
            return
        stream = self.earlier.placed(stream, self)
        if operator != "aten::copy_":
            self.computing.add(stream)
        site = self.site(node)
        if self.thread.inherited is not None:
            expected = take_lost_stream(self.thread, stream, self)
            if expected:
                self.session.lost_context(stream, expected, site)
        device = self.device_of(stream)
        context = context_of(self.thread, device, device if other_device is None else other_device, self)
        is_quick = operator in QUICK and len({id(tensor.block) for tensor, _ in touched}) == 1
        self.recent.note(stream, operator, site, is_quick=is_quick)
        calls = self.imported.callers(self.calls) if self.thread is self._main_thread else []
        self.sites.note_launch(operator, site, calls, touched)
        self.graph_results.launched(touched, site)
        self.session.launch(stream, operator, self.accesses(touched), site, context)

    def guess(self, node: ast.AST) -> None:
        """Assume that unknown code leaves work running on the current stream. Only clocks and events are affected."""
        stream = self.current(self.thread.device)
        if self.ordering_only or not stream or is_on_host(node) or self.is_capturing():
            return
        self.guesses[site := self.site(node)] = computes(node)
        self.recent.note_unknown(stream, node, site)
        self.session.launch(stream, "unknown code", [], site)

    def read_unknown(self) -> None:
        """Let the host read something that may be a tensor, so that it waits for the current streams."""
        if self.is_capturing():
            return
        for device in range(N_DEVICES):
            stream = self.current(device)
            if not stream:
                self.assume_synchronized()
                return
            self.session.sync_stream(stream, UNKNOWN_SITE, explicit=False)
            self.recent.loops.note_wait([stream])

    def touch_host(
        self, operator: str, touched: Iterable[TensorAccess], node: ast.AST, *, escape: bool = False
    ) -> None:
        """Let the host read or write tensors in host memory."""
        if self.ordering_only:
            return
        if accesses := self.accesses(touched):
            self.sites.flows.read_by_host(ident for ident, _, _ in accesses)
            self.session.host_access(operator, accesses, self.site(node), escape=escape)
