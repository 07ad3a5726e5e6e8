"""The monitor that checks a program: it drives the engine, keeps the sync history and collects the findings."""

import time
from collections.abc import Callable

from syncheck.findings import Report, Summary
from syncheck.hb.clock import HOST
from syncheck.hb.engine import Engine, Race
from syncheck.hb.ids import (
    EVERY_THREAD,
    MAIN_THREAD,
    NO_EVENT,
    Accesses,
    AllocationId,
    Context,
    EventId,
    GraphId,
    HostId,
    NamedKind,
    ObjectKind,
    ReadingId,
    SiteId,
    StreamId,
    StreamOrigin,
    ViewId,
    WaitCall,
)
from syncheck.hb.order import WaitResult
from syncheck.rules.model import Rule
from syncheck.sanitizer import (
    advice,
    events,
    graphs,
    misuse,
    pending_collectives,
    races,
    timing,
)
from syncheck.sanitizer.collector import Checkpoint, Collector, OnFinding
from syncheck.sanitizer.created_in_loop import CreatedInLoop
from syncheck.sanitizer.labels import Labels
from syncheck.sanitizer.lifetimes import Lifetimes
from syncheck.sanitizer.messages import StreamInfo
from syncheck.sanitizer.monitor import Sites
from syncheck.sanitizer.sync_history import HostSync, SyncHistory, Wait
from syncheck.sanitizer.views import Views

_BY_NAME = (StreamOrigin.BY_NAME, StreamOrigin.BY_NAME)
_NAMED_THREADS = 1024
"""Maximum number of program threads that are distinguished in findings; others have no name."""


class Session:
    """Checks one program. See `Monitor` for the calls.

    Args:
        selected: returns whether to report a rule.
        backend: description of the GPUs.
        on_finding: called with each new finding, during the call that completed it.
        is_run: whether the calls come from a run, in which loops show as repeated calls.
    """

    def __init__(
        self,
        selected: Callable[[Rule], bool],
        backend: str,
        on_finding: OnFinding = lambda _: None,
        *,
        is_run: bool = True,
    ) -> None:
        self.collector = Collector(selected, on_finding)
        names = self.collector.names
        self.device_type, self.name_view = names.set_device_type, names.name_view  # see `Monitor`
        self._backend = backend
        self._engine = engine = Engine()
        self.release, self.acquire, self.acquire_all = engine.release, engine.acquire, engine.acquire_all
        self.forget_sync, self.complete_all = engine.forget_sync, engine.complete_all
        self.clocks, self.rewind, self.advance = engine.clocks, engine.rewind, engine.advance
        self._sync_history = SyncHistory(self._engine.host_follows)
        self._graphs = graphs.Graphs(self.collector)
        self.capturing, self.sync_in_capture = self._graphs.is_capturing, self._graphs.sync_in_capture
        self._events = events.Events(self._engine, self._sync_history, self.collector)
        self.event, self.drop_event = self._events.add, self._events.drop
        self._timing = timing.Timing(self._engine, self._sync_history, self.collector)
        following = pending_collectives.PendingCollectives(self._engine, self.collector)
        self.collective, self.ended = following.add, following.report  # see `Monitor`
        self.clock_difference, self._labels = self._timing.difference, Labels()
        self._launch_labels: dict[tuple[SiteId, str], int] = {}  # of the current thread's launches outside captures
        self._labels_of = {MAIN_THREAD: self._launch_labels}
        self._views = Views(self._engine, self.collector.names.views)
        self.view = self._views.add
        self._last_site = self.collector.names.last_site
        self._races = races.Races(
            engine, self.collector, self._sync_history, self._events, self._graphs, self._labels, self._views
        )
        self.lost_context = self._races.lost_context
        self.results, self.result_kept = self._graphs.results, self._graphs.result_kept
        self._lives = lives = Lifetimes(self._engine, self.collector, self._graphs, self._labels, self._views)
        self._is_run, names.is_run, self.n_operators = is_run, is_run, 0
        self.allocate, self.free, self.record_stream = lives.allocate, lives.free, lives.record_stream
        self.holds_used_memory = lives.holds_used_memory
        self._loops = CreatedInLoop(self.collector)
        self._advice = loops = advice.Advice(self._engine, self.collector, self._sync_history, is_run=is_run)
        self.stream_object, self.empty_cache = loops.stream_object, loops.cache_emptied
        self.timed, self.times, self.untimed = loops.timed, loops.times, loops.untimed
        self._incomplete: dict[str, None] = {}
        self._notes: dict[str, None] = {}
        self._started = time.perf_counter()

    # -- threads

    def host(self, host: HostId, name: str) -> None:
        """See `Monitor`."""
        self._engine.switch_host(host)
        known = self._labels.host = host if host <= _NAMED_THREADS else EVERY_THREAD
        self._launch_labels = self._labels_of.setdefault(known, {})
        if known != EVERY_THREAD:
            self.collector.names.threads[known] = name

    # -- definitions

    def stream(self, stream: StreamId, device: int, handle: int, site: SiteId, *, legacy: bool, blocking: bool) -> None:
        """See `Monitor`."""
        ident = self._engine.add_stream(device, is_legacy=legacy, is_blocking=blocking)
        assert ident == stream, "streams are numbered in order"
        self.collector.names.streams[stream] = StreamInfo(device, handle, site)
        self.collector.names.known_at[NamedKind.STREAM, stream] = site
        if self._graphs.capture is not None:
            self._graphs.capture.engine.add_stream(device)

    def name(self, kind: NamedKind, ident: int, text: str) -> None:
        """See `Monitor`; a stream keeps its name while an object for it is alive."""
        if kind is not NamedKind.STREAM or not self._advice.overlap.has_object(StreamId(ident)):
            self.collector.names.given[kind, ident] = text

    def unordered(self, stream: StreamId) -> tuple[StreamId, ...]:
        """Return the streams with work that is not ordered before an operator submitted to a stream now."""
        return tuple(self._engine.unordered(stream))

    def name_at(self, kind: NamedKind, ident: int, text: str, path: str, line: int) -> None:
        """See `Monitor`."""
        self.collector.names.seen_at.setdefault((kind, ident), {}).setdefault((path, line), text)

    def describe_allocation(self, allocation: AllocationId, view: ViewId) -> None:
        """See `Monitor`."""
        self.collector.names.shown[allocation] = view

    def object_created(self, kind: ObjectKind, ident: int, site: SiteId) -> None:
        """See `Monitor`."""
        self._loops.object_created(kind, ident, site)

    def object_destroyed(self, kind: ObjectKind, ident: int) -> None:
        """See `Monitor`."""
        self._loops.object_destroyed(kind, ident)
        self._advice.overlap.stream_object_destroyed(ident)

    # -- accesses

    def launch(
        self, stream: StreamId, operator: str, accesses: Accesses, site: SiteId, context: Context | None = None
    ) -> None:
        """See `Monitor`."""
        self.n_operators += 1
        label = self._launch_labels.get((site, operator))
        if label is None or context is not None or self._graphs.capture is not None:
            label = self._labels.number(site, operator)
            if self._graphs.is_capturing(stream):
                found = self._lives.launch_in_capture(stream, operator, accesses, label)
                self._races.explain(found, accesses, inside_graph=True)
                return
            self._launch_labels[site, operator] = label
            self._graphs.note_run(operator)
            if context is not None:
                self._races.note_context(stream, operator, site, context, label)
        self._last_site[stream] = site
        self._advice.launching(stream, operator, accesses, site)
        found, lives = self._engine.launch(stream, accesses, label), self._lives
        if lives.reused:
            lives.first_use(stream, accesses)
        if found:
            self._races.explain(found, accesses)
        if lives.unnamed and label in lives.unnamed and self._is_run:
            lives.note_repeated_use(accesses, label)

    def is_ordered_after_all(self, stream: StreamId, allocation: AllocationId) -> bool:
        """See `Monitor`; False while a finding waits for its operator to run again, which must not be elided."""
        return not self._lives.unnamed and self._engine.is_ordered_after_all(stream, allocation)

    def launches_elided(self, stream: StreamId, count: int, site: SiteId) -> None:
        """See `Monitor`."""
        self.n_operators += count
        self._last_site[stream] = site
        self._advice.launching(stream, "", (), site)
        self._engine.launch_elided(stream, count)

    def host_access(self, operator: str, accesses: Accesses, site: SiteId, *, escape: bool = False) -> None:
        """See `Monitor`."""
        self._advice.syncs.host_inspects()
        label = self._labels.number(site, operator, is_escape=escape)
        found: list[Race] = []
        for allocation, view, is_write in accesses:
            found.extend(self._engine.host_access(allocation, view, label, is_write=is_write))
        self._races.explain(found, accesses)

    def pageable_copy(self, allocation: AllocationId, view: ViewId, site: SiteId) -> None:
        """See `Monitor`."""
        self.collector.add(misuse.pageable(allocation, view, site))

    # -- order

    def record(
        self,
        event: EventId,
        stream: StreamId,
        site: SiteId,
        origin: StreamOrigin = StreamOrigin.BY_NAME,
        current: StreamId = HOST,
    ) -> None:
        """See `Monitor`."""
        capture = self._graphs.capture
        if capture is not None and stream in capture.streams:
            if self._events.is_external(event):
                capture.graph.records[event] = None
                return
            capture.engine.record(event, stream)
            capture.events.add(event)
            return
        self._events.record(event, stream, site, origin, current)

    def wait(
        self,
        event: EventId,
        stream: StreamId,
        site: SiteId,
        via: WaitCall,
        origin: StreamOrigin = StreamOrigin.BY_NAME,
        current: StreamId = HOST,
    ) -> None:
        """See `Monitor`."""
        if self._graphs.capture is not None:
            is_recorded = self._engine.snapshot(event) is not None
            is_external = self._events.is_external(event)
            if self._graphs.wait(event, stream, is_recorded=is_recorded, is_external=is_external):
                return
        self._events.wait(event, stream, site, via, origin, current)

    def wait_stream(
        self,
        stream: StreamId,
        other: StreamId,
        site: SiteId,
        origins: tuple[StreamOrigin, StreamOrigin] = _BY_NAME,
        current: StreamId = HOST,
    ) -> None:
        """See `Monitor`."""
        if self._graphs.wait_stream(stream, other):
            return
        result = self._engine.wait_stream(stream, other)
        if origins[0] == StreamOrigin.BY_TORCH:
            self._advice.overlap.torch_waits(stream, other, site)
            return
        acquired, submitted = self._engine.clock(other), self._engine.submitted()
        wait = Wait(
            site, stream, other, NO_EVENT, submitted, acquired, by_event=False, origins=origins, current=current
        )
        self._sync_history.add_wait(wait)
        self._events.count_redundant(site, stream, acquired, redundant=result is WaitResult.REDUNDANT)

    def sync_event(self, event: EventId, site: SiteId) -> None:
        """See `Monitor`."""
        self._events.sync(event, site)
        self._advice.syncs.host_inspects()
        device = self._events.device(event)
        if device is not None:
            self._add_sync(site, device, event)

    def sync_stream(self, stream: StreamId, site: SiteId, *, explicit: bool) -> None:
        """See `Monitor`."""
        self._advice.host_waits(stream, site, explicit=explicit)
        self._engine.sync_stream(stream)
        if explicit:
            self._add_sync(site, self.collector.names.streams[stream].device)

    def sync_device(self, device: int, site: SiteId) -> None:
        """See `Monitor`."""
        self._advice.device_waits(device, site)
        is_needed = self._engine.has_unobserved_work(device)
        self._engine.sync_device(device)
        self._add_sync(site, device, is_device_wide=True, is_needed=is_needed)

    def _add_sync(self, site: SiteId, device: int, event: EventId = NO_EVENT, **kind: bool) -> None:
        engine = self._engine
        sync = HostSync(site, device, engine.submitted(), event, host=engine.host, moment=engine.host_step(), **kind)
        self._sync_history.add_sync(sync)

    def is_pending(self, kind: NamedKind, ident: int) -> bool:
        """See `Monitor`."""
        self._advice.syncs.host_inspects()
        if kind == NamedKind.EVENT:
            return self._events.is_pending(EventId(ident))
        return ident in self._engine.unfinished()

    def clock(self, reading: ReadingId, site: SiteId) -> None:
        """See `Monitor`."""
        self._advice.syncs.host_inspects()
        self._timing.read(reading, site, self._last_site)

    def elapsed(self, start: EventId, end: EventId, site: SiteId) -> None:
        """See `Monitor`."""
        self._advice.syncs.host_inspects()
        self._events.elapsed(start, end, site)

    # -- graphs

    def capture_begin(self, graph: GraphId, stream: StreamId, site: SiteId, pool: int = 0) -> None:
        """See `Monitor`."""
        self._graphs.begin(graph, stream, site, self._engine, pool)

    def capture_end(self, graph: GraphId) -> tuple[StreamId, ...]:
        """See `Monitor`."""
        del graph
        return self._graphs.end()

    def replay(self, graph: GraphId, stream: StreamId, site: SiteId) -> None:
        """See `Monitor`."""
        accesses = self._graphs.replay(graph, site)
        accesses = [access for access in accesses if self._engine.is_live(access[0])]
        self.n_operators += 1
        self._last_site[stream] = site
        waits, records = self._graphs.external_events(graph)
        for event in waits:
            self._events.wait(event, stream, site, WaitCall.TORCH, StreamOrigin.BY_NAME, HOST)
        self._graphs.order_replay(graph, stream, self._engine)
        self._advice.launching(stream, "graph replay", (), site)
        label = self._labels.number(site, "graph replay", is_replay=True)
        found = self._engine.launch(stream, accesses, label)
        self._lives.first_use(stream, accesses)
        self._races.explain(found, ())
        self._races.explain(self._graphs.pools.replayed(graph, stream, label, self._engine), ())
        self._graphs.note_replay(graph, stream, self._engine)
        for event in records:
            self._events.record(event, stream, site, StreamOrigin.BY_NAME, HOST)

    @property
    def warm_operators(self) -> frozenset[str]:
        """The operators that have run, among those that need a warm-up before a capture."""
        return frozenset(self._graphs.warm)

    # -- the end

    def reset(self) -> None:
        """Start over for another program: all work so far counts as complete, and no loop continues."""
        self._engine.complete_all()
        self._loops = CreatedInLoop(self.collector)
        self._advice.begin()

    def restart(self) -> Checkpoint:
        """Start over like `reset` for another part of the program; return a checkpoint for the part's own report.

        The report then covers this part only: its operators, notes, and waits.
        """
        self.reset()
        self._events.begin()
        self._lives.begin()
        self._last_site.clear()
        self._incomplete.clear()
        self._notes.clear()
        self.n_operators, self._started = 0, time.perf_counter()
        return self.collector.checkpoint()

    def incomplete(self, reason: str) -> None:
        """See `Monitor`."""
        self._incomplete[reason] = None

    def note(self, text: str) -> None:
        """Add a note about the run for the user, once."""
        self._notes[text] = None

    def add_final(self, sites: Sites) -> None:
        """Add the findings that are known only at the end of the program or of a part, such as redundant waits."""
        self._lives.report_all_unused()
        self._events.report_redundant(sites)
        self._advice.overlap.report()

    def report(self, sites: Sites, since: Checkpoint | None = None) -> Report:
        """Word all findings, or only those since a checkpoint.

        Findings that `add_final` adds are reported only without a checkpoint, or if the caller has called it.
        """
        if since is None:
            self.add_final(sites)
        busy = [stream for stream in self.collector.names.streams if stream in self._last_site]
        used = sorted({self.collector.names.streams[stream].device for stream in busy})
        seconds = time.perf_counter() - self._started
        return Report(
            findings=self.collector.findings(sites, since),
            incomplete=(*self._incomplete, *self.collector.dropped_note),
            notes=tuple(self._notes),
            summary=Summary(self._backend, self.n_operators, len(busy), len(used), seconds, used=tuple(map(str, used))),
        )
