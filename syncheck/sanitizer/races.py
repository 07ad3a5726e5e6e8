"""Conversion of the engine's races to findings, one for each missing edge."""

from functools import partial

from syncheck.findings import EditKind
from syncheck.hb.clock import HOST, TICK, Epoch
from syncheck.hb.engine import Engine, Race
from syncheck.hb.ids import NO_ALLOCATION, NO_VIEW, Accesses, Context, SiteId, StreamId, ViewId
from syncheck.rules import wait_before_record
from syncheck.rules.model import Severity
from syncheck.sanitizer import classify, misuse
from syncheck.sanitizer.collector import Collector, PendingFinding
from syncheck.sanitizer.events import Events
from syncheck.sanitizer.fixes import PendingEdit, PendingFix
from syncheck.sanitizer.graphs import Graphs
from syncheck.sanitizer.labels import Labels
from syncheck.sanitizer.messages import EventCode, EventRef, TensorRef, Text
from syncheck.sanitizer.race_context import EarlyRecord, RaceContext
from syncheck.sanitizer.sync_history import SyncHistory, Wait
from syncheck.sanitizer.thread_races import explain_host_use, note_threads
from syncheck.sanitizer.views import Views, without_covered_reads
from syncheck.witness.schedule import LaunchId, Pair


class Races:
    """Explains races, including those caused by stream contexts that do not apply."""

    def __init__(
        self,
        engine: Engine,
        collector: Collector,
        sync_history: SyncHistory,
        events: Events,
        graphs: Graphs,
        labels: Labels,
        views: Views,
    ) -> None:
        self._engine = engine
        self._collector = collector
        self._sync_history = sync_history
        self._events = events
        self._graphs = graphs
        self._labels = labels
        self._views = views
        # (entered at, device of the work) -> finding about a context that does not apply
        self._contexts: dict[tuple[SiteId, int], PendingFinding] = {}
        # (stream used, stream expected) -> finding about a thread
        self._lost: dict[tuple[StreamId, StreamId], PendingFinding] = {}
        self._mismatched: dict[int, PendingFinding] = {}  # label of work outside its context's device -> its finding

    # -- contexts that do not apply

    def lost_context(self, actual: StreamId, expected: StreamId, site: SiteId) -> None:
        """See `Monitor`. A thread that has waited for the other stream by itself is meant to use its own."""
        latest = self._engine.now(expected)
        if self._engine.stream_covers(actual, latest) and not self._engine.host_covers(latest):
            return
        used, meant = (self._collector.names.streams[stream] for stream in (actual, expected))
        device = meant.device if meant.handle == 0 and meant.device != used.device else None
        self._lost[actual, expected] = self._collector.add(misuse.lost_context(actual, expected, site, device))

    def note_context(self, stream: StreamId, operator: str, site: SiteId, context: Context, label: int) -> None:
        """Note that an operator runs in a stream context that does not apply to it."""
        if context.entered:
            self._report_mismatch(stream, operator, site, context, label)
        elif (stream, context.stream) in self._lost:
            self._mismatched[label] = self._lost[stream, context.stream]

    def _report_mismatch(self, stream: StreamId, operator: str, site: SiteId, context: Context, label: int) -> None:
        entered = context.entered
        device = self._collector.names.streams[stream].device
        pending = self._contexts.get((entered, device))
        if pending is None:
            pending = self._contexts[entered, device] = self._collector.add(
                misuse.mismatch(operator, device, context.stream, site, entered), entered
            )
        else:
            pending.count += pending.site == site
        self._mismatched[label] = pending

    # -- races

    def explain(self, races: list[Race], accesses: Accesses, *, inside_graph: bool = False) -> None:
        """Report each missing edge once, starting with the edge that implies most of the others.

        Args:
            races: the races that an operator completes.
            accesses: what it accesses.
            inside_graph: it is being captured.
        """
        capture = self._graphs.capture
        if inside_graph and capture is not None and self._engine is not capture.engine:
            of_capture = self._of_capture(capture.engine)
            of_capture.explain(races, accesses, inside_graph=True)
            self._events.assumed_ordered |= of_capture._events.assumed_ordered  # noqa: SLF001  of the same class
            return
        races, engine = without_covered_reads(races), self._engine
        for race in races:
            if race.by_host is not None and not engine.host_follows(race.by_host, race.prior.epoch):
                self._collector.add(explain_host_use(self._context(race, self._views.used(race, accesses))))
                engine.assume_ordered(race)
        races = engine.order_root_causes_first([race for race in races if race.by_host is None])
        for race in races:
            if engine.covers(race.current.actor, race.prior.epoch):
                continue  # already ordered by the edge added for an earlier race
            view = NO_VIEW if race.allocation == NO_ALLOCATION else self._views.used(race, accesses)
            latest = max(other.prior.epoch for other in races if other.prior.actor == race.prior.actor)
            self._report(race, view, None if inside_graph or race.is_in_pool else _pair(race), latest)
            engine.assume_ordered(race)  # so that it is not reported again at every later use
            self._events.assumed_ordered.add(race.current.actor)

    def _of_capture(self, engine: Engine) -> "Races":
        """Return the same for a capture. Its clocks are not those of the program's waits and events."""
        history = SyncHistory(engine.host_follows)
        events = Events(engine, history, self._collector)
        made = Races(engine, self._collector, history, events, self._graphs, self._labels, self._views)
        made._mismatched = self._mismatched
        return made

    def _report(self, race: Race, view: ViewId, pair: Pair | None, latest: Epoch) -> None:
        """Report a race; `latest`: the last op that the wait must cover, which may be an allocation."""
        mismatch = self._mismatched.get(race.prior.label) or self._mismatched.get(race.current.label)
        if mismatch is not None:
            mismatch.pair, mismatch.level = mismatch.pair or pair, Severity.ERROR
            consequence = self._labels[race.current.label].site
            if consequence != mismatch.site and all(site != consequence for site, _ in mismatch.related):
                mismatch.related.append((consequence, ("this relies on ordering that the context does not provide",)))
        context = self._context(race, view, latest)
        pending = classify.explain(context)
        pending.pair = pair
        if view != NO_VIEW:
            pending.view, pending.extent = view, (race.current.footprint.start, race.current.footprint.stop)
        note_threads(context, pending)
        if mismatch is not None:  # reported by itself only if the program hides its cause
            pending.superseded = partial(self._collector.shows, mismatch)
            self._collector.add(pending, race.prior.actor)
            return
        ineffective = self._sync_history.ineffective_wait(race.current.actor, race.prior.epoch)
        if ineffective is not None and not (context.events and self._events.is_of_ring(ineffective.event)):
            # the common cause is the wait that did nothing, unless it is for another slot of a ring
            pending.superseded = lambda: self._events.is_reported_as_unrecorded(ineffective.site)
            self._events.fix_unrecorded(ineffective.site, _blame_idle_wait(pending, ineffective, context))
        self._collector.add(pending, race.prior.actor)

    def _context(self, race: Race, view: ViewId, latest: Epoch | None = None) -> RaceContext:
        prior = race.prior
        by_host = race.current.actor == HOST
        after = self._events.first_event_after(latest or prior.epoch, prior.actor)
        events = (self._events.newest_event_covering(prior.epoch), after) if by_host else (after,)
        return RaceContext(
            race,
            self._labels[race.prior.label],
            self._labels[race.current.label],
            TensorRef(race.allocation, view),
            self._engine,
            self._sync_history,
            self._collector.names,
            tuple(event for event in dict.fromkeys(events) if event),
            self._early_record(race),
        )

    def _early_record(self, race: Race) -> EarlyRecord | None:
        """Return the record that the later actor waited for although it comes before the earlier access, if any."""
        prior = race.prior
        for event in self._sync_history.events_awaited_after(race.current.actor, prior.epoch):
            if site := self._events.record_before(event, prior.epoch, prior.actor):
                return EarlyRecord(event, site)
        return None


def _pair(race: Race) -> Pair:
    """Return the launches that race; host accesses have no launch number."""
    return Pair(*(LaunchId(one.actor, one.epoch // TICK) for one in (race.prior, race.current)))


def _blame_idle_wait(pending: PendingFinding, ineffective: Wait, context: RaceContext) -> PendingFix:
    """Add the ineffective wait to a finding: the missing piece is the record of its event, not another wait.

    Returns:
        The fix, which adds the record.
    """
    event = EventRef(ineffective.event)
    text: Text = ("this wait does nothing: ", event, f" had not been recorded yet ({wait_before_record.RULE.code})")
    pending.related.append((ineffective.site, text))
    record = PendingEdit(EditKind.INSERT_AFTER, context.prior.site, (EventCode(ineffective.event), ".record()"))
    wait = classify.stream_wait(context) if context.race.current.actor != HOST else pending.fix
    added = PendingFix((record,), is_unsafe=True)
    pending.fix, pending.advice = added._replace(otherwise=wait), ()
    return added
