"""Races between threads of the program: the threads involved, and calls that only seem to order them."""

from syncheck.hb.ids import EVERY_THREAD, HostId, SiteId
from syncheck.rules import host_read_in_flight, host_write_in_flight
from syncheck.sanitizer.collector import PendingFinding
from syncheck.sanitizer.messages import StreamRef, Text, ThreadRef
from syncheck.sanitizer.race_context import RaceContext


def note_threads(context: RaceContext, pending: PendingFinding) -> None:
    """Name the threads of a race, and add calls of other threads that do not order the racing thread."""
    if context.is_between_threads:
        pending.thread = _known(context.current.host)
        if context.prior.site == context.current.site and pending.fix is not None:  # either may come first
            pending.fix, pending.advice = pending.fix.as_example(), (", and hold a lock around both lines",)
    unordered = _unordered_waits(context)
    if unordered:
        pending.fix = None
        pending.advice = ("record the event before anything lets ", ThreadRef(context.current.host), " continue")
    for site, message in (*_waits_of_others(context), *unordered):
        pending.thread = _known(context.current.host)
        pending.related.append((site, message))


def _known(host: HostId) -> HostId | None:
    return None if host == EVERY_THREAD else host


def _waits_of_others(context: RaceContext) -> list[tuple[SiteId, Text]]:
    """Return the call sites at which another thread has waited for the work that this thread uses."""
    worker = context.race.prior.actor
    sync = context.sync_history.unordered_sync_after(context.race.prior.epoch)
    if sync is None or context.race.is_first_use or sync.device != context.device(worker):
        return []
    this_thread, other_thread = ThreadRef(context.current.host), ThreadRef(sync.host)
    return [(sync.site, (other_thread, " waits here: nothing orders ", this_thread, " after that"))]


def _unordered_waits(context: RaceContext) -> list[tuple[SiteId, Text]]:
    """Return the call sites of a wait by the later side for an event that another thread may record only afterwards."""
    wait = context.sync_history.unordered_wait(context.race.current.actor, context.race.prior.epoch)
    if wait is None:
        return []
    return [
        (wait.site, ("this wait may come before the event's record",)),
        (wait.recorded_at, (ThreadRef(wait.recorder), " records it here: nothing orders the wait after that")),
    ]


def explain_host_use(context: RaceContext) -> PendingFinding:
    """Return the finding for work submitted by one thread while another thread may still be accessing the memory."""
    race = context.race
    stream = StreamRef(race.current.actor)
    facts: dict[str, Text] = {"tensor": (context.tensor,), "stream": (stream,)}
    rule = host_read_in_flight.RULE
    if race.prior.is_write:
        rule = host_write_in_flight.RULE
        facts["verb"] = ("writing" if race.current.is_write else "reading",)
    verb = "writes" if race.current.is_write else "reads"
    submitter = ThreadRef(context.current.host)
    use: Text = (
        stream,
        f" {verb} it: ",
        submitter,
        " submits that here, and nothing orders it after the host's access",
    )
    advice: Text = ("let ", submitter, " wait until ", ThreadRef(context.prior.host), " is done with it")
    return PendingFinding(
        rule,
        context.prior.site,
        facts,
        [(context.current.site, use)],
        advice,
        allocation=race.allocation,
        thread=_known(context.prior.host),
    )
