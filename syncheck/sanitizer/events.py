"""Checks of events: ineffective waits, lost records, elapsed time."""

from dataclasses import dataclass, field

from syncheck.findings import EditKind, Frame
from syncheck.hb.clock import ACTOR_MASK, HOST, TICK, Epoch, VectorClock, covers
from syncheck.hb.engine import Engine
from syncheck.hb.ids import NO_EVENT, UNKNOWN_SITE, EventId, HostId, NamedKind, SiteId, StreamId, StreamOrigin, WaitCall
from syncheck.hb.order import WaitResult
from syncheck.rules import (
    elapsed_time_before_sync,
    event_without_timing,
    redundant_wait,
    timing_on_wrong_stream,
    wait_before_record,
)
from syncheck.sanitizer import mistaken_sync
from syncheck.sanitizer.collector import Collector, PendingFinding, is_at_a_line_of
from syncheck.sanitizer.first_laps import FirstLaps
from syncheck.sanitizer.fixes import PendingEdit, PendingFix, host_wait, replacement
from syncheck.sanitizer.messages import EventCode, EventRef, StreamCode, StreamRef, Text, TorchCode
from syncheck.sanitizer.mistaken_sync import mistaken_wait, wait_instead_of_sync, wrong_device
from syncheck.sanitizer.monitor import Sites
from syncheck.sanitizer.sync_history import NOT_RECORDED, LostRecord, SyncHistory, UnorderedWait, Wait

_TIMING = "enable_timing=True"
_WAIT_FIRST = "call `wait()` on the handles of that work before {line}, so that the event comes after it"


@dataclass(slots=True)
class Record:
    """An event's latest record.

    Attributes:
        submitted: each stream's last op at the time of the record.
        snapshot: the clock that it represents; owned by the engine, immutable.
        origin: how the program obtained the stream, as in `Monitor.wait`.
        current: the stream that was current at the call.
        used: whether it has been waited for, synchronized or queried since.
        waited_by: the threads in which the program made the host wait for it.
    """

    stream: StreamId
    site: SiteId
    submitted: VectorClock
    snapshot: VectorClock
    origin: StreamOrigin
    current: StreamId
    used: bool = False
    waited_by: set[HostId] = field(default_factory=set)


@dataclass(slots=True)
class EventState:
    """State of an event object.

    Attributes:
        is_returned: `record_event()` created it and recorded it immediately.
        idle: the calls that waited for it before its first record.
        early: the same, if it is one of a ring: its call site had created another event after it.
    """

    site: SiteId
    timing: bool
    external: bool = False
    last: Record | None = None
    is_returned: bool = False
    early: tuple[SiteId, ...] = ()
    idle: tuple[SiteId, ...] = ()


class Events:
    """Tracks all events of the program."""

    def __init__(self, engine: Engine, sync_history: SyncHistory, collector: Collector) -> None:
        self._engine = engine
        self._sync_history = sync_history
        self._collector = collector
        self._states: dict[EventId, EventState] = {}
        self._newest: dict[SiteId, EventId] = {}  # call site -> the last event that it created
        self.begin()

    def begin(self) -> None:
        """Begin a part of the program that is reported by itself: the results of earlier wait calls do not count."""
        self.assumed_ordered: set[StreamId] = set()  # actors given a missing edge when their race was reported
        self._effective_sites: set[SiteId] = set()  # wait calls that were effective at least once
        self._unrecorded: dict[SiteId, PendingFinding] = {}  # wait call -> its finding
        self._first_laps = FirstLaps()
        self._redundant: dict[SiteId, bool] = {}  # wait call -> whether none of its executions added order
        self._ordered_by: dict[SiteId, SiteId] = {}  # redundant wait call -> the earlier ordering wait

    def add(self, event: EventId, site: SiteId, *, timing: bool = False, external: bool = False) -> None:
        """Note that an event object was created."""
        self._collector.names.known_at[NamedKind.EVENT, event] = site
        self._states[event] = EventState(site, timing, external)
        self._newest[site] = event

    def is_external(self, event: EventId) -> bool:
        """Return whether a capture includes the records of an event, and the waits for it, in the graph.

        Source:
            CUDA Runtime API, cudaEventRecordExternal and cudaEventWaitExternal; aten/src/ATen/cuda/CUDAEvent.h.
        """
        return self._states[event].external

    def drop(self, event: EventId) -> None:
        """Note that an event object was destroyed."""
        self._states.pop(event, None)
        self._collector.names.drop(NamedKind.EVENT, event)
        self._engine.forget_event(event)

    def record(self, event: EventId, stream: StreamId, site: SiteId, origin: StreamOrigin, current: StreamId) -> None:
        """Take a snapshot; an earlier unused one is lost."""
        state = self._states[event]
        last = state.last
        if last is None:
            self._effective_sites.update(state.early)
            self._first_laps.note(state.idle, site, state.site)
        self._engine.record(event, stream)
        snapshot = self._engine.snapshot(event)
        assert snapshot is not None  # it was just recorded
        if last is not None and not last.used and last.stream != stream:
            self._sync_history.add_lost(LostRecord(event, last.stream, last.site, site, last.snapshot))
        state.is_returned = state.is_returned or (last is None and site == state.site)
        state.last = Record(stream, site, self._engine.submitted(), snapshot, origin, current)

    def wait(
        self, event: EventId, stream: StreamId, site: SiteId, via: WaitCall, origin: StreamOrigin, current: StreamId
    ) -> None:
        """Make a stream wait for an event's latest record."""
        state = self._states[event]
        self._note_unordered(event, stream, site)
        result = self._engine.wait(event, stream)
        if state.last is not None:
            state.last.used = True
        if not via:
            return
        last = state.last
        acquired = last.snapshot if last is not None else None
        recorded = (last.stream, last.site, last.origin, last.current) if last is not None else NOT_RECORDED
        submitted = self._engine.submitted()
        wait = Wait(
            site,
            stream,
            HOST,
            event,
            submitted,
            acquired,
            via == WaitCall.EVENT_WAIT,
            (origin, StreamOrigin.BY_NAME),
            current,
            recorded,
        )
        self._sync_history.add_wait(wait)
        if result is WaitResult.NEVER_RECORDED:
            self._report_unrecorded(event, site, (StreamRef(stream),))
        else:
            self._effective_sites.add(site)
            redundant = result is WaitResult.REDUNDANT and self._engine.unordered_record(event) is None
            if last is not None and self._engine.host in last.waited_by and self._is_known(last):
                self._note_redundant(site, redundant=True)  # this thread has already waited for this record
            elif recorded[0] != stream:
                self.count_redundant(site, stream, acquired or [], redundant=redundant)
            elif (
                via == WaitCall.STREAM_WAIT_EVENT
            ):  # an `Event.wait` there costs nothing; if it is harmful, SYN402 is reported
                self._note_redundant(site, redundant=redundant)

    def _note_unordered(self, event: EventId, waiter: StreamId, site: SiteId) -> None:
        """Store a wait whose event another thread may record only later."""
        recorder = self._engine.unordered_record(event)
        last = self._states[event].last
        if recorder is not None and last is not None:
            self._sync_history.add_unordered(UnorderedWait(site, waiter, last.snapshot, last.site, recorder))
            self._effective_sites.add(site)  # the race is reported instead

    def _is_known(self, record: Record) -> bool:
        """Return whether the host knows that all work covered by a record is complete."""
        return not self._pending(record)

    def count_redundant(self, site: SiteId, waiter: StreamId, acquired: VectorClock, *, redundant: bool) -> None:
        """Track whether a wait call ever added order.

        A wait is not reported if the host happened to know that the work was complete, for example after a blocking
        copy, or if the missing edge was added because of a reported race.
        """
        redundant = redundant and waiter not in self.assumed_ordered and self._engine.is_pending(acquired, waiter)
        if redundant and site not in self._ordered_by:
            self._ordered_by[site] = self._sync_history.wait_covering(waiter, acquired, site)
        self._note_redundant(site, redundant=redundant)

    def _note_redundant(self, site: SiteId, *, redundant: bool) -> None:
        self._redundant[site] = self._redundant.get(site, True) and redundant

    def sync(self, event: EventId, site: SiteId) -> None:
        """Make the host wait for an event's latest record."""
        state = self._states[event]
        self._note_unordered(event, HOST, site)
        if self._engine.sync_event(event) is WaitResult.NEVER_RECORDED:
            submitted = self._engine.submitted()
            self._sync_history.add_wait(
                Wait(
                    site,
                    HOST,
                    HOST,
                    event,
                    submitted,
                    None,
                    by_event=False,
                    origins=(StreamOrigin.BY_NAME, StreamOrigin.BY_NAME),
                )
            )
            self._report_unrecorded(event, site, ("the host",))
            return
        self._effective_sites.add(site)
        if state.last is not None:
            state.last.used = True
            state.last.waited_by.add(self._engine.host)

    def is_reported_as_unrecorded(self, site: SiteId) -> bool:
        """Return whether a wait call was never effective, so that SYN401 is reported for it; called at the end."""
        sites = self._collector.names.sites
        if sites is None:
            return True
        return not (is_at_a_line_of(site, self._effective_sites, sites) or self._first_laps.includes(site, sites))

    def first_event_after(self, epoch: int, stream: StreamId) -> EventId:
        """Return the event with the earliest of the latest records after `epoch` on a stream; 0 if none."""
        records = (
            (state.last.snapshot[stream], event)
            for event, state in self._states.items()
            if state.last is not None and state.last.stream == stream and covers(state.last.snapshot, epoch)
        )
        return min(records, default=(0, NO_EVENT))[1]

    def newest_event_covering(self, epoch: int) -> EventId:
        """Return the newest event whose latest record covers `epoch`; 0 if none."""
        for event, state in reversed(self._states.items()):
            if state.last is not None and covers(state.last.snapshot, epoch):
                return event
        return NO_EVENT

    def record_before(self, event: EventId, epoch: Epoch, stream: StreamId) -> SiteId:
        """Return the call site of an event's latest record if it comes before `epoch` on its stream; 0 otherwise."""
        state = self._states.get(event)
        last = state.last if state is not None else None
        is_before = last is not None and last.stream == stream and not covers(last.snapshot, epoch)
        return last.site if last is not None and is_before else UNKNOWN_SITE

    def is_of_ring(self, event: EventId) -> bool:
        """Return whether the call that created an event also created others."""
        state = self._states.get(event)
        return state is not None and sum(other.site == state.site for other in self._states.values()) > 1

    def device(self, event: EventId) -> int | None:
        """Return the device of an event's last record; None before the first."""
        last = self._states[event].last
        return self._collector.names.streams[last.stream].device if last is not None else None

    def _report_unrecorded(self, event: EventId, site: SiteId, waiter: Text) -> None:
        # In a loop over a ring of events, the waits of the first iterations correctly do nothing. Therefore only calls
        # that are never effective, from any caller, are reported, and none if it is followed by the first record of an
        # event of a ring, which may not have been used twice yet. Real mistakes there show up as races.
        advice: Text = ("call `", EventCode(event), ".record()` after the work to wait for, and before {line}")
        pending = PendingFinding(
            wait_before_record.RULE,
            site,
            {"waiter": waiter, "event": (EventRef(event),)},
            [(self._states[event].site, ("created here, and not recorded since",))],
            advice,
            superseded=lambda: not self.is_reported_as_unrecorded(site),
        )
        self._unrecorded[site] = self._collector.add(pending)
        state = self._states[event]
        state.idle += (site,)
        if event != self._newest[state.site]:
            state.early += (site,)

    def fix_unrecorded(self, site: SiteId, record: PendingFix) -> None:
        """Set the fix of an ineffective wait, after a race has shown which work it is for: record its event there."""
        pending = self._unrecorded.get(site)
        if pending is not None and pending.fix is None:
            pending.fix, pending.advice, pending.instead = record, (), pending.advice

    # -- elapsed time

    def elapsed(self, start: EventId, end: EventId, site: SiteId) -> None:
        """Check `start.elapsed_time(end)`."""
        without = [event for event in dict.fromkeys((start, end)) if not self._states[event].timing]
        if without:
            self._report_no_timing(without, site)
            return
        for event in (end, start):
            if self.is_pending(event):
                self._report_pending(event, site)
                break
        self._check_stream(start, end)

    def is_pending(self, event: EventId) -> bool:
        """Return whether the event's last record may still be incomplete, as far as the host knows."""
        last = self._states[event].last
        return last is not None and bool(self._pending(last))

    def _report_no_timing(self, events: list[EventId], site: SiteId) -> None:
        origins = list(dict.fromkeys(self._states[event].site for event in events))
        related: list[tuple[SiteId, Text]] = [(created, ("created here, without timing",)) for created in origins]
        returned = {state.site for state in map(self._states.__getitem__, events) if state.is_returned}
        arguments = tuple(_with_timing(created, is_returned=created in returned) for created in origins)
        facts: dict[str, Text] = {"event": (EventRef(events[0]),)}
        self._collector.add(PendingFinding(event_without_timing.RULE, site, facts, related, fix=PendingFix(arguments)))

    def _report_pending(self, event: EventId, site: SiteId) -> None:
        last = self._states[event].last
        assert last is not None  # a pending event was recorded
        unknown = self._pending(last)
        epoch_to_report = next((epoch for epoch in unknown if epoch & ACTOR_MASK == last.stream), unknown[0])
        wait = wait_instead_of_sync(self._sync_history, self._engine, epoch_to_report)
        recorded: tuple[SiteId, Text] = (last.site, ("recorded here",))
        called: tuple[SiteId, Text] = (site, ("elapsed_time() is called here",))
        device = self._collector.names.streams[last.stream].device
        sync = next(self._sync_history.syncs_after(epoch_to_report), None)
        if wait is not None and wait.event == event:
            consequence: Text = ("elapsed_time() is then called before it is known to be complete",)
            pending = mistaken_wait(wait, consequence, [called, recorded])
        elif sync is not None and sync.device != device:
            consequence = ("elapsed_time() then needs ", EventRef(event), f" on cuda:{device}")
            pending = wrong_device(sync, last.stream, device, consequence, [called, recorded])
        else:
            fix = host_wait(site, [event], last.stream, last.site)
            facts: dict[str, Text] = {"event": (EventRef(event),)}
            pending = PendingFinding(elapsed_time_before_sync.RULE, site, facts, [recorded], fix=fix)
        self._collector.add(pending)

    def _pending(self, record: Record) -> list[int]:
        """Return the ops that a record covers and that the host does not know to be complete."""
        return [e for e in record.snapshot[1:] if e >= TICK and not self._engine.host_covers(e)]

    def _check_stream(self, start: EventId, end: EventId) -> None:
        """Report timing events between which only a different, unordered stream had work."""
        first, last = self._states[start].last, self._states[end].last
        if first is None or last is None:
            return
        began = first.submitted + [0] * (len(last.submitted) - len(first.submitted))
        worked = [
            StreamId(s) for s, epoch in enumerate(last.submitted) if s != HOST and epoch >= TICK and epoch > began[s]
        ]
        snapshot = last.snapshot + [0] * (len(last.submitted) - len(last.snapshot))
        if not worked or any(snapshot[stream] > began[stream] for stream in worked):
            return
        worker = worked[0]
        facts: dict[str, Text] = {"stream": (StreamRef(last.stream),), "worker": (StreamRef(worker),)}
        records = [replacement(site, "record", "record(", StreamCode(worker), ")") for site in (first.site, last.site)]
        is_internal = self._collector.names.streams[worker].is_internal  # the program cannot name it then
        fix = None if is_internal else PendingFix(tuple(records), is_unsafe=True)
        advice: Text = (_WAIT_FIRST,) if is_internal else ()
        related: list[tuple[SiteId, Text]] = [(first.site, ("the first timing event is recorded here",))]
        self._collector.add(PendingFinding(timing_on_wrong_stream.RULE, last.site, facts, related, advice, fix))

    def report_redundant(self, sites: Sites) -> None:
        """Report the lines whose waits never added order, unless they have other findings; called at the end."""
        lines: dict[Frame, list[SiteId]] = {}
        for site in self._redundant:
            lines.setdefault(sites.location(site).frame, []).append(site)
        for calls in lines.values():  # a line may be redundant for one caller and needed for another
            site = calls[0]
            if all(self._redundant[call] and not self._collector.has(call) for call in calls):
                earlier = self._ordered_by.get(site, UNKNOWN_SITE)
                facts: dict[str, Text] = {"reason": (_already_ordered(sites, site, earlier),)}
                self._collector.add(
                    PendingFinding(
                        redundant_wait.RULE, site, facts, [], ("remove the wait at {line}",), is_about_call=True
                    )
                )


def _with_timing(creation_site: SiteId, *, is_returned: bool) -> PendingEdit:
    """Return the edit that enables timing for an event; `is_returned`: `record_event()` creates it."""
    if not is_returned:
        return PendingEdit(EditKind.ADD_ARGUMENT, creation_site, (_TIMING,))
    return replacement(creation_site, "record_event", "record_event(", TorchCode("cuda.Event"), f"({_TIMING}))")


def _already_ordered(sites: Sites, site: SiteId, earlier: SiteId) -> str:
    """Return the reason why a wait is redundant, naming the earlier wait if it is known."""
    if not earlier:
        return "already ordered"
    frame = sites.location(earlier).frame
    is_here = frame.path == sites.location(site).frame.path
    return f"already ordered by the wait at {f'line {frame.line}' if is_here else f'{frame.path}:{frame.line}'}"


RULES = (
    event_without_timing.RULE,
    elapsed_time_before_sync.RULE,
    timing_on_wrong_stream.RULE,
    wait_before_record.RULE,
    redundant_wait.RULE,
    *mistaken_sync.RULES,
)
"""The rules that this module reports."""
