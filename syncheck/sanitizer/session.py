"""The monitor that checks: feeds the engine, keeps the sync_history, collects the findings."""

import time
from collections.abc import Callable

from syncheck.findings import Report, Summary
from syncheck.hb.clock import HOST
from syncheck.hb.engine import HOST_POOL, Engine, Race
from syncheck.hb.footprint import strided
from syncheck.hb.memory import FreedAccess
from syncheck.hb.order import WaitResult
from syncheck.rules.model import Rule
from syncheck.sanitizer import classify, events, graphs, misuse, pending_collectives, timing
from syncheck.sanitizer.collector import Checkpoint, Collector, PendingFinding
from syncheck.sanitizer.created_in_loop import CreatedInLoop
from syncheck.sanitizer.messages import StreamInfo, StreamRef, TensorRef, Text, View
from syncheck.sanitizer.monitor import Ids, Sites
from syncheck.sanitizer.race_context import Label, RaceContext
from syncheck.sanitizer.sync_history import HostSync, SyncHistory, Wait
from syncheck.sanitizer.views import Accesses, Views, as_writes

_KEPT_RECORDS = 4096
"""Allocations whose useless `record_stream` is remembered, the oldest forgotten first."""


class Session:
    """Checks one program. See `Monitor` for the calls.

    Args:
        selected: which rules to report.
        backend: how the GPUs are provided, in words.
    """

    def __init__(self, selected: Callable[[Rule], bool], backend: str) -> None:
        self.collector = Collector(selected)
        self._backend = backend
        self._engine = Engine()
        self._sync_history = SyncHistory()
        self._graphs = graphs.Graphs(self.collector)
        self._events = events.Events(self._engine, self._sync_history, self.collector)
        self._timing = timing.Timing(self._engine, self._sync_history, self.collector)
        following = pending_collectives.PendingCollectives(self._engine, self.collector)
        self.collective, self.ended = following.add, following.report  # see `Monitor`
        self.elapsed, self.clock_difference = self._events.elapsed, self._timing.difference
        self._labels: list[Label] = [Label(0, "")]
        self._label_ids: dict[tuple[int, str, bool, bool], int] = {}
        self._allocation_labels: dict[int, int] = {}  # call site -> label
        self._launch_labels: dict[tuple[int, str], int] = {}  # those of launches outside of captures
        self._views = Views(self._engine, self.collector.names.views)
        self._last_site = self.collector.names.last_site
        self._contexts: dict[tuple[int, int], PendingFinding] = {}  # (entered at, device of the work) -> finding
        self._lost: dict[tuple[int, int], PendingFinding] = {}  # (stream used, stream expected) -> finding of a thread
        self._mismatched: dict[int, PendingFinding] = {}  # label of work outside its context's device -> its finding
        self._self_recorded: dict[int, int] = {}  # allocation -> call site of a record_stream of its own stream
        self._useful_records: set[int] = set()  # call sites of record_stream that protected something at least once
        self._blamed_records: set[int] = set()  # those of them that were meant to prevent a SYN201
        self._loops = CreatedInLoop(self.collector)
        self._operators = 0
        self._incomplete: dict[str, None] = {}
        self._notes: dict[str, None] = {}
        self._started = time.perf_counter()

    # -- definitions

    def stream(self, stream: int, device: int, handle: int, site: int, *, legacy: bool, blocking: bool) -> None:
        """See `Monitor`."""
        given = self._engine.add_stream(device, is_legacy=legacy, is_blocking=blocking)
        assert given == stream, "streams are numbered in order"  # noqa: S101
        self.collector.names.streams[stream] = StreamInfo(device, handle, site)
        if self._graphs.capture is not None:
            self._graphs.capture.engine.add_stream(device)

    def name(self, kind: str, ident: int, text: str) -> None:
        """See `Monitor`."""
        self.collector.names.given[kind, ident] = text

    def view(self, start: int, sizes: Ids, strides: Ids, item_size: int, dtype: str) -> int:
        """See `Monitor`."""
        return self._views.intern(strided(start, sizes, strides, item_size), View(sizes, item_size, dtype))

    def describe_allocation(self, allocation: int, view: int) -> None:
        """See `Monitor`."""
        self.collector.names.shown[allocation] = view

    def object_created(self, thing: str, ident: int, site: int) -> None:
        """See `Monitor`."""
        self._loops.object_created(thing, ident, site)

    def object_destroyed(self, thing: str, ident: int) -> None:
        """See `Monitor`."""
        self._loops.object_destroyed(thing, ident)

    # -- memory

    def allocate(self, allocation: int, home: int, n_bytes: int, pool: int, site: int) -> Ids:
        """See `Monitor`."""
        if self._graphs.capture is not None and self._graphs.takes(home):
            pool = graphs.GRAPH_POOLS
            self._graphs.allocated(allocation)
        elif home == HOST:
            pool = HOST_POOL
        label = self._allocation_labels.get(site)
        if label is None:
            label = self._allocation_labels[site] = self._label(site, "allocation")
        reuses = self._engine.allocate(allocation, home, n_bytes, pool, label)
        return tuple(self._report_reuse(reuse, site) for reuse in reuses) if reuses else ()

    def _report_reuse(self, freed: FreedAccess, site: int) -> int:
        labels = self._labels
        sites = (labels[freed.allocation_label].site, labels[freed.free_label].site, site)
        view = self._views.of(freed.use.footprint)
        is_default = self.collector.names.streams[freed.use.actor].handle == 0
        pending = misuse.reuse(freed, view, labels[freed.use.label].site, sites, is_default=is_default)
        self.collector.add(pending, sites[0])
        if freed.allocation in self._self_recorded:
            self._blamed_records.add(self._self_recorded[freed.allocation])
        return freed.allocation

    def free(self, allocation: int, site: int) -> Ids:
        """See `Monitor`."""
        if not self._graphs.exist and self._engine.free_private(allocation):
            return ()
        recorded = self._engine.records(allocation)
        allocated = self._labels[self._engine.allocation_label(allocation)].site
        self._graphs.freed(allocation, site, allocated)
        freed = self._engine.free(allocation, self._label(site, "free"))
        if len(self._self_recorded) > _KEPT_RECORDS:
            del self._self_recorded[next(iter(self._self_recorded))]
        self._useful_records.update(recorded[stream][0] for stream in freed.useful_records)
        for stream in freed.useless_records:
            record_site, view = recorded[stream]
            if not record_site:
                continue  # torch does it for a message
            reason: Text = (StreamRef(stream), " is waited for before it is freed, so that it only delays the reuse")
            pending = misuse.useless_record(allocation, view, record_site, reason, (site, allocated))
            pending.superseded = lambda site=record_site: site in self._useful_records
            self.collector.add(pending)
        return (allocation,) if freed.useless_records else ()

    def record_stream(self, allocation: int, view: int, stream: int, site: int) -> None:
        """See `Monitor`."""
        if self._graphs.takes(stream):
            return
        if self._engine.record_stream(allocation, stream, (site, view)) and site:  # else torch does it
            self._self_recorded[allocation] = site
            reason: Text = ("it names the stream that the tensor was allocated on",)
            allocated = self._labels[self._engine.allocation_label(allocation)].site
            pending = misuse.useless_record(allocation, view, site, reason, (allocated,))
            pending.superseded = lambda: site in self._blamed_records or site in self._useful_records
            self.collector.add(pending)

    # -- accesses

    def launch(self, stream: int, operator: str, accesses: Accesses, site: int, context: int = 0) -> Ids:
        """See `Monitor`."""
        self._operators += 1
        label = self._launch_labels.get((site, operator))
        if label is None or context or self._graphs.capture is not None:
            label = self._label(site, operator)
            if self._graphs.takes(stream):
                races = self._graphs.launch(stream, operator, accesses, label)
                return self._explain(races, accesses, inside_graph=True)
            self._launch_labels[site, operator] = label
            self._graphs.ran(operator)
            self._note_context(stream, operator, site, context, label)
        self._last_site[stream] = site
        races = self._engine.launch(stream, accesses, label)
        return self._explain(races, accesses) if races else ()

    def launches_elided(self, stream: int, count: int, site: int) -> None:
        """See `Monitor`."""
        self._operators += count
        self._last_site[stream] = site
        self._engine.launch(stream, (), 0)

    def _note_context(self, stream: int, operator: str, site: int, context: int, label: int) -> None:
        if context > 0:
            self._report_mismatch(stream, operator, site, context, label)
        elif context < 0 and (stream, -context) in self._lost:
            self._mismatched[label] = self._lost[stream, -context]

    def _report_mismatch(self, stream: int, operator: str, site: int, context: int, label: int) -> None:
        entered, context_stream = divmod(context, 4096)
        device = self.collector.names.streams[stream].device
        pending = self._contexts.get((entered, device))
        if pending is None:
            pending = self._contexts[entered, device] = self.collector.add(
                misuse.mismatch(operator, device, context_stream, site, entered), entered
            )
        else:
            pending.count += pending.site == site
        self._mismatched[label] = pending

    def _explain(self, races: list[Race], accesses: Accesses, *, inside_graph: bool = False) -> Ids:
        """Report each missing edge once: the one that brings most of the others with it comes first."""
        races = as_writes(races)
        capture = self._graphs.capture
        engine = capture.engine if inside_graph and capture else self._engine
        named: list[int] = []
        for race in engine.order_root_causes_first(races):
            if engine.covers(race.current.actor, race.prior.epoch):
                continue  # an edge added for an earlier one orders it too
            named.append(race.allocation)
            self._report_race(race, self._views.used(race, accesses))
            engine.assume_ordered(race)  # so that it is not reported again at every later use
            self._events.assumed_ordered.add(race.current.actor)
        return tuple(named)

    def _report_race(self, race: Race, view: int) -> None:
        mismatch = self._mismatched.get(race.prior.label) or self._mismatched.get(race.current.label)
        if mismatch is not None:
            consequence = self._labels[race.current.label].site
            if consequence != mismatch.site and all(site != consequence for site, _ in mismatch.related):
                mismatch.related.append((consequence, ("this relies on the order that the context does not give",)))
            return
        context = RaceContext(
            race,
            self._labels[race.prior.label],
            self._labels[race.current.label],
            TensorRef(race.allocation, view),
            self._engine,
            self._sync_history,
            self.collector.names,
            self._events.covering(race.prior.epoch) if race.current.actor == HOST else 0,
        )
        pending = classify.explain(context)
        idle = self._sync_history.idle_wait(race.current.actor, race.prior.epoch)
        if idle is not None:  # one cause: the wait that waited for nothing
            pending.superseded = lambda: self._events.is_reported_as_unrecorded(idle.site)
        self.collector.add(pending, race.prior.actor)

    def host_access(self, operator: str, accesses: Accesses, site: int, *, escape: bool = False) -> Ids:
        """See `Monitor`."""
        label = self._label(site, operator, is_escape=escape)
        races: list[Race] = []
        for allocation, view, is_write in accesses:
            races.extend(self._engine.host_access(allocation, view, label, is_write=is_write))
        return self._explain(races, accesses) if races else ()

    def pageable_copy(self, allocation: int, view: int, site: int) -> Ids:
        """See `Monitor`."""
        pending = misuse.pageable(allocation, view, site)
        return (allocation,) if self.collector.add(pending) is pending else ()

    def _label(self, site: int, operator: str, *, is_replay: bool = False, is_escape: bool = False) -> int:
        key = (site, operator, is_replay, is_escape)
        label = self._label_ids.get(key)
        if label is None:
            label = self._label_ids[key] = len(self._labels)
            self._labels.append(Label(*key))
        return label

    # -- order

    def event(self, event: int, site: int, *, timing: bool) -> None:
        """See `Monitor`."""
        self._events.add(event, site, timing=timing)

    def drop_event(self, event: int) -> None:
        """See `Monitor`."""
        self._events.drop(event)

    def record(self, event: int, stream: int, site: int, looked_up: str = "", current: int = 0) -> None:
        """See `Monitor`."""
        capture = self._graphs.capture
        if capture is not None and stream in capture.streams:
            capture.engine.record(event, stream)
            capture.events.add(event)
            return
        self._events.record(event, stream, site, looked_up, current)

    def wait(self, event: int, stream: int, site: int, via: str, looked_up: str = "", current: int = 0) -> None:
        """See `Monitor`."""
        capture = self._graphs.capture
        if capture is not None and event in capture.events:
            capture.engine.wait(event, stream)
            capture.streams.add(stream)
            return
        self._events.wait(event, stream, site, via, looked_up, current)

    def wait_stream(
        self, stream: int, other: int, site: int, looked_up: tuple[str, str] = ("", ""), current: int = 0
    ) -> None:
        """See `Monitor`."""
        capture = self._graphs.capture
        if capture is not None and other in capture.streams:
            capture.engine.wait_stream(stream, other)
            capture.streams.add(stream)
            return
        result = self._engine.wait_stream(stream, other)
        if looked_up[0] == "torch":
            return
        acquired = self._engine.clock(other)
        submitted = self._engine.submitted()
        wait = Wait(site, stream, other, 0, submitted, acquired, by_event=False, looked_up=looked_up, current=current)
        self._sync_history.add_wait(wait)
        self._events.count_redundant(site, stream, acquired, redundant=result is WaitResult.REDUNDANT)

    def sync_event(self, event: int, site: int) -> None:
        """See `Monitor`."""
        self._events.sync(event, site)
        device = self._events.device(event)
        if device is not None:
            self._add_sync(site, device, event)

    def sync_stream(self, stream: int, site: int, *, explicit: bool) -> None:
        """See `Monitor`."""
        self._engine.sync_stream(stream)
        if explicit:
            self._add_sync(site, self.collector.names.streams[stream].device)

    def sync_device(self, device: int, site: int) -> None:
        """See `Monitor`."""
        self._engine.sync_device(device)
        self._add_sync(site, device)

    def _add_sync(self, site: int, device: int, event: int = 0) -> None:
        self._sync_history.add_sync(HostSync(site, device, self._engine.submitted(), event))

    def is_pending(self, kind: str, ident: int) -> bool:
        """See `Monitor`."""
        if kind == "event":
            return self._events.is_pending(ident)
        return ident in self._engine.unfinished()

    def clock(self, reading: int, site: int) -> None:
        """See `Monitor`."""
        self._timing.read(reading, site, self._last_site)

    def lost_context(self, actual: int, expected: int, site: int) -> None:
        """See `Monitor`."""
        self._lost[actual, expected] = self.collector.add(misuse.lost_context(actual, expected, site))

    # -- graphs

    def capture_begin(self, graph: int, stream: int, site: int) -> None:
        """See `Monitor`."""
        self._graphs.begin(graph, stream, site, self._engine)

    def capture_end(self, graph: int) -> Ids:
        """See `Monitor`."""
        del graph
        return self._graphs.end()

    def capturing(self, stream: int) -> bool:
        """See `Monitor`."""
        return self._graphs.takes(stream)

    def sync_in_capture(self, call: str, site: int) -> None:
        """See `Monitor`."""
        self._graphs.sync_in_capture(call, site)

    def replay(self, graph: int, stream: int, site: int) -> Ids:
        """See `Monitor`."""
        accesses = self._graphs.replay(graph, site)
        accesses = [access for access in accesses if self._engine.is_live(access[0])]
        self._operators += 1
        self._last_site[stream] = site
        label = self._label(site, "graph replay", is_replay=True)
        return self._explain(self._engine.launch(stream, accesses, label), ())

    # -- the end

    def reset(self) -> None:
        """What comes is another program: all work so far is complete, and no loop goes on."""
        for stream in self.collector.names.streams:
            self._engine.sync_stream(stream)
        self._loops = CreatedInLoop(self.collector)

    def incomplete(self, reason: str) -> None:
        """See `Monitor`."""
        self._incomplete[reason] = None

    def note(self, text: str) -> None:
        """Tell the user something about the run, once."""
        self._notes[text] = None

    def report(self, sites: Sites, since: Checkpoint | None = None) -> Report:
        """Word all findings.

        With a mark, only those since: waits that never add order are told at the end, when that is known.
        """
        if since is None:
            self._events.report_redundant(sites)
        busy = [stream for stream in self.collector.names.streams if stream in self._last_site]
        devices = {self.collector.names.streams[stream].device for stream in busy}
        seconds = time.perf_counter() - self._started
        return Report(
            findings=self.collector.findings(sites, since),
            incomplete=tuple(self._incomplete),
            notes=tuple(self._notes),
            summary=Summary(self._backend, self._operators, len(busy), len(devices), seconds),
        )


RULES = (*misuse.RULES, *classify.RULES, *events.RULES, *timing.RULES, *graphs.RULES, *pending_collectives.RULES)
"""All rules that the sanitizer can report."""
