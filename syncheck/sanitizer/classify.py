"""Choice of the rule that explains a race best: a decision table with the most specific row first."""

from collections.abc import Callable
from typing import TypeAlias

from syncheck.findings import EditKind
from syncheck.hb.ids import NO_ALLOCATION, EventId, NamedKind, SiteId, StreamId
from syncheck.rules import (
    collective_buffer_modified,
    collective_result_before_wait,
    graph_input_overwritten,
    host_read_in_flight,
    host_write_in_flight,
    lost_event_record,
    stale_stream_handle,
    unordered_first_use,
    unordered_graph_replays,
    unordered_overwrite,
    unordered_read,
    unordered_write,
)
from syncheck.rules.model import Severity
from syncheck.sanitizer import mistaken_sync
from syncheck.sanitizer.collector import PendingFinding
from syncheck.sanitizer.fixes import (
    EACH,
    PendingEdit,
    PendingFix,
    first_of,
    for_each,
    host_wait,
    insertion,
    wait_after_copy,
    wait_at_once,
    wait_code,
)
from syncheck.sanitizer.labels import Label
from syncheck.sanitizer.messages import EventCode, EventRef, Part, RecordedStreamCode, StreamCode, StreamRef, Text
from syncheck.sanitizer.mistaken_sync import mistaken_wait, wait_instead_of_sync, wrong_device
from syncheck.sanitizer.race_context import UNSEEN_WRITE, RaceContext
from syncheck.sanitizer.sync_history import Wait
from syncheck.semantics.collectives import BATCH, collective_name, is_functional
from syncheck.semantics.library import CURRENT
from syncheck.semantics.library import operator as described_operator

Row: TypeAlias = Callable[[RaceContext], PendingFinding | None]


def explain(context: RaceContext) -> PendingFinding:
    """Return the finding for a race: from the first row that matches its cause, else from the plain rule."""
    pending = next((found for row in _ROWS if (found := row(context)) is not None), None) or _plain(context)
    pending.allocation = context.race.allocation
    if not context.is_certain:
        _qualify_rows(pending, context)
    return pending


def _qualify_rows(pending: PendingFinding, context: RaceContext) -> None:
    """Turn a finding whose accesses may touch different rows into a warning that says so."""
    pending.level = Severity.WARNING
    sides = ((context.race.prior, context.prior), (context.race.current, context.current))
    for access, label in sides:
        if access.footprint.is_partial:
            operator = label.operator.removeprefix("aten::")
            rows: Text = (
                f"an index on the GPU determines which rows `{operator}` touches: there is no race if they differ",
            )
            pending.related.append((label.site, rows))


# -- rows of the decision table


def _shared_pool(context: RaceContext) -> PendingFinding | None:
    race = context.race
    if not race.is_in_pool:
        return None
    facts: dict[str, Text] = {"stream": (StreamRef(race.current.actor),), "other": (StreamRef(race.prior.actor),)}
    if race.allocation == NO_ALLOCATION:
        facts["does"] = ("replays another graph of the same memory pool",)
        did: Text = ("the other graph's replay",)
    else:
        verb = "writes" if race.prior.is_write else "reads"
        facts["does"] = (f"{verb} ", context.tensor, ", a result of another graph of the same memory pool")
        did = context.access_text
    advice: Text = (", or capture the graphs without a shared `pool`",)
    related = [(context.prior.site, did)]
    fix = stream_wait(context)
    return PendingFinding(unordered_graph_replays.RULE, context.current.site, facts, related, advice, fix)


def _replay(context: RaceContext) -> PendingFinding | None:
    race = context.race
    if context.is_host or not (context.prior.is_replay or context.current.is_replay):
        return None
    facts: dict[str, Text] = {
        "stream": (StreamRef(race.current.actor),),
        "verb": ("overwrites" if race.current.is_write else "reads",),
        "tensor": (context.tensor,),
        "other": (StreamRef(race.prior.actor),),
    }
    if context.current.is_replay and not context.prior.is_replay:  # name the program's own access as the culprit
        facts["stream"], facts["other"] = facts["other"], facts["stream"]
        facts["verb"] = ("writes" if race.prior.is_write else "reads",)
        site, other, message = context.prior.site, context.current.site, "the replay that is not ordered with it"
    else:
        site, other, message = context.current.site, context.prior.site, "the replay"
    return PendingFinding(graph_input_overwritten.RULE, site, facts, [(other, (message,))], fix=stream_wait(context))


def _collective(context: RaceContext) -> PendingFinding | None:
    """Match a collective started with `async_op=True` that the stream using its tensors has not waited for."""
    race = context.race
    name = collective_name(context.prior.operator)
    if not name or not context.is_internal(race.prior.actor):
        return None
    if context.prior.operator == BATCH and collective_name(context.current.operator) in {"isend", "irecv"}:
        return _in_one_batch(context)
    facts: dict[str, Text] = {"collective": (f"`{name}`",)}
    related: list[tuple[SiteId, Text]] = [(context.prior.site, ("started here",))]
    is_ours = not (context.is_host or context.is_internal(race.current.actor))
    advice: Text = (", where ", StreamRef(race.current.actor), " is the current stream") if is_ours else ()
    operator, site = context.prior.operator, context.prior.site
    wait = insertion(context.current.site, wait_code(operator, site))
    fix = PendingFix((wait,), after=site, otherwise=wait_at_once(operator, site))
    if is_functional(operator) and (behind := context.streams_behind):  # `wait_tensor` makes only one stream wait
        advice, fix = (), _wait_for_one_of(behind, context)
    if race.current.is_write:
        facts["tensor"] = (context.tensor,)
        return PendingFinding(collective_buffer_modified.RULE, context.current.site, facts, related, advice, fix)
    return PendingFinding(collective_result_before_wait.RULE, context.current.site, facts, related, advice, fix)


def _in_one_batch(context: RaceContext) -> PendingFinding:
    """Return the finding for two messages of one batch that use the same memory."""
    related: list[tuple[SiteId, Text]] = [(context.current.site, ("operations of one batch run at the same time",))]
    advice: Text = ("receive in a batch of its own, and wait for it before the batch that uses ", context.tensor)
    facts: dict[str, Text] = {"collective": ("`irecv`",)}
    return PendingFinding(collective_result_before_wait.RULE, context.current.site, facts, related, advice)


def _mistaken_host_wait(context: RaceContext) -> PendingFinding | None:
    if not context.is_host:
        return None
    wait = wait_instead_of_sync(context.sync_history, context.engine, context.race.prior.epoch)
    if wait is None:
        return None
    verb = "changes" if context.race.current.is_write else "reads"
    doing = "writing" if context.race.prior.is_write else "reading"
    worker = StreamRef(context.race.prior.actor)
    consequence: Text = (f"the host {verb} ", context.tensor, " while ", worker, f" may still be {doing} it")
    related = [(context.current.site, (f"the host {verb} it here",)), (context.prior.site, context.access_text)]
    return mistaken_wait(wait, consequence, related)


def _wrong_device(context: RaceContext) -> PendingFinding | None:
    epoch = context.race.prior.epoch
    worker = context.race.prior.actor
    if context.race.is_first_use:
        return None
    sync = next(context.sync_history.syncs_after(epoch), None)
    if sync is None or sync.device == context.device(worker):
        return None
    who: Part = "the host" if context.is_host else StreamRef(context.race.current.actor)
    verb = "writes" if context.race.current.is_write else "reads"
    consequence: Text = (
        who,
        f" then {verb} ",
        context.tensor,
        ", on which ",
        StreamRef(worker),
        " may still be working",
    )
    related: list[tuple[SiteId, Text]] = [
        (context.current.site, (who, f" {verb} it here")),
        (context.prior.site, context.access_text),
    ]
    return wrong_device(sync, worker, context.device(worker), consequence, related)


def _lost_record(context: RaceContext) -> PendingFinding | None:
    race = context.race
    for lost in context.sync_history.lost_covering(race.prior.epoch):
        if _waited_for(context, lost.event):
            facts: dict[str, Text] = {
                "event": (EventRef(lost.event),),
                "stream": (StreamRef(lost.stream),),
                "consequence": (StreamRef(race.current.actor), " then uses ", context.tensor, " unordered"),
            }
            related: list[tuple[SiteId, Text]] = [
                (lost.site, ("the record that was lost",)),
                (context.current.site, ("the use that needed it",)),
                (context.prior.site, context.access_text),
            ]
            advice: Text = ("record another event at {line}, or wait for ", EventRef(lost.event), " before it")
            return PendingFinding(lost_event_record.RULE, lost.second_site, facts, related, advice)
    return None


def _waited_for(context: RaceContext, event: EventId) -> bool:
    """Return whether the later side of the race waited for an event in between."""
    epoch = context.race.prior.epoch
    if context.is_host:
        return any(sync.event == event for sync in context.sync_history.syncs_after(epoch))
    waits = context.sync_history.waits_after(epoch)
    return any(w.event == event and w.waiter == context.race.current.actor and w.acquired is not None for w in waits)


def _stale_handle(context: RaceContext) -> PendingFinding | None:
    if context.is_host:
        return None
    reader = context.race.current.actor
    for wait in context.sync_history.waits_after(context.race.prior.epoch):
        stale = _find_stale_stream(wait, context)
        if stale is None:
            continue
        site, named, actual, current = stale
        as_waiter = " as the waiting stream" if wait.waiter != reader else ""
        itself = ", which waits for itself" if wait.waiter == wait.target else ""
        facts: dict[str, Text] = {
            "named": (StreamRef(named), as_waiter, itself),
            "actual": (StreamRef(actual),),
            "consequence": (context.tensor, " is then used unordered"),
        }
        related = [
            (context.current.site, (StreamRef(reader), " uses it here")),
            (context.prior.site, context.access_text),
        ]
        advice: Text = ("use ", StreamRef(actual), as_waiter, " at {line}: look it up where its work is submitted")
        if current == actual:
            use = f"use `torch.cuda.current_stream()`{as_waiter} at {{line}}, where "
            advice = (use, StreamRef(actual), " is current")
        return PendingFinding(stale_stream_handle.RULE, site, facts, related, advice)
    return None


def _find_stale_stream(wait: Wait, context: RaceContext) -> tuple[SiteId, StreamId, StreamId, StreamId] | None:
    """Return a call that names the wrong stream, if a wait or its event's record does.

    The call is given as (call site, named stream, intended stream, current stream).

    This applies only to streams obtained from `current_stream()` or `default_stream()`, and only if the intended stream
    is current at the call, or if a stream waits for itself.
    """
    reader, writer = context.race.current.actor, context.race.prior.actor
    recorded_on, record_site, record_origin, record_current = wait.recorded
    if wait.waiter == reader:
        if wait.target not in {0, writer} and wait.origins[1] and (wait.current == writer or wait.target == reader):
            return wait.site, wait.target, writer, wait.current
        if recorded_on not in {0, writer} and record_origin and record_current == writer:
            return record_site, recorded_on, writer, record_current
    elif (
        wait.origins[0]
        and wait.covers(context.race.prior.epoch)
        and (wait.current == reader or wait.waiter == wait.target)
    ):
        return wait.site, wait.waiter, reader, wait.current
    return None


def _plain(context: RaceContext) -> PendingFinding:
    if context.is_host:
        return _plain_host(context)
    race = context.race
    now, before = (StreamRef(race.current.actor),), (StreamRef(race.prior.actor),)
    facts: dict[str, Text] = {"tensor": (context.tensor,)}
    message = context.access_text
    if race.is_first_use:
        rule = unordered_first_use.RULE
        facts |= {"stream": now, "allocator": before}
        message = ("allocated here, on ", StreamRef(race.prior.actor))
    elif not race.current.is_write:
        rule = unordered_read.RULE
        facts |= {"reader": now, "writer": before}
    elif race.prior.is_write:
        rule = unordered_write.RULE
        facts |= {"writer": now, "earlier": before}
    else:
        rule = unordered_overwrite.RULE
        facts |= {"writer": now, "reader": before}
    pending = PendingFinding(
        rule, context.current.site, facts, [(context.prior.site, message)], fix=stream_wait(context)
    )
    _note_record(pending, context)
    return pending


def _note_record(pending: PendingFinding, context: RaceContext) -> None:
    """Add to a finding why the event waited for does not cover the work: when or where it was recorded."""
    early, idle = context.early_record, context.wait_for_itself
    before = StreamRef(context.race.prior.actor)
    if early is not None:
        event = EventRef(early.event)
        work = context.prior_work if context.prior.is_replay else f"`{context.prior_work}`"
        pending.related.append((early.site, (event, f" is recorded here, before {work}, and so does not cover it")))
        pending.advice = (", or record ", event, f" after {work} instead of before it")
    elif idle is not None:
        event, now = EventRef(idle.event), StreamRef(idle.waiter)
        recorded: Text = (event, " is recorded here on ", now, ", which waits for it itself")
        pending.related.append((idle.recorded[1], (*recorded, ": it does not cover ", before)))
        pending.advice = (", or record ", event, " on ", before)


def _plain_host(context: RaceContext) -> PendingFinding:
    race = context.race
    facts: dict[str, Text] = {"tensor": (context.tensor,), "stream": (StreamRef(race.prior.actor),)}
    rule = host_read_in_flight.RULE
    if race.current.is_write:
        rule = host_write_in_flight.RULE
        facts["verb"] = ("writing" if race.prior.is_write else "reading",)
    advice: Text = ()
    fix: PendingFix | None = None
    if context.current.operator == UNSEEN_WRITE:
        fix = wait_after_copy(race.prior.actor, context.prior.site)
        advice = (", or let the host wait just before it changes the memory, between that copy and {line}",)
    else:
        fix = host_wait(context.current.site, context.events, race.prior.actor, context.prior.site)
        if not context.events:
            advice = (", or record an event after the copy and synchronize that",)
    related: list[tuple[SiteId, Text]] = [(context.prior.site, context.access_text)]
    pending = PendingFinding(rule, context.current.site, facts, related, advice, fix)
    if context.current.is_escape:
        pending.level = Severity.WARNING
    _note_record(pending, context)
    is_covered = context.early_record is not None and rule is host_read_in_flight.RULE and bool(context.events)
    if context.early_record is not None and is_covered and not context.engine.fills_slots(race.prior.label):
        pending.early_record = context.early_record.site
    return pending


def stream_wait(context: RaceContext) -> PendingFix:
    """Return the fix that makes the later stream wait: for an event after the earlier access, else for its stream."""
    reader, writer = context.race.current.actor, context.race.prior.actor
    early, late = context.prior.site, context.current.site
    # The accessing stream is the current one at the access, so it needs no name, except in libraries with own streams.
    waiter = StreamCode(reader, is_on_current_stream(context.current))
    before_use = insertion(late, waiter, ".wait_stream(", StreamCode(writer), ")")
    own = StreamCode(writer, is_on_current_stream(context.prior))
    at_once = (StreamCode(reader, is_last_resort=True), ".wait_stream(", own, ")")
    after_work = PendingEdit(EditKind.INSERT_AFTER, early, at_once)  # overlaps less
    last = PendingFix((after_work,), is_unsafe=True, before=late, is_between_threads=context.is_between_threads)
    of_group = for_each(NamedKind.STREAM_GROUP, writer, waiter, ".wait_stream(", EACH, ")")
    otherwise = PendingFix((insertion(late, *of_group),), after=early, otherwise=last)
    if default := context.default_stream_behind:
        after_default = insertion(late, waiter, ".wait_stream(", StreamCode(default), ")")
        otherwise = PendingFix((after_default,), after=early, otherwise=otherwise)
    fix = PendingFix((before_use,), after=early, otherwise=otherwise)
    if handed_over := context.handed_over_at:
        for code in (StreamCode(reader), RecordedStreamCode(handed_over)):  # the last one is the best
            at_hand_over = insertion(handed_over, code, ".wait_stream(", StreamCode(writer), ")")
            fix = PendingFix((at_hand_over,), after=early, otherwise=fix)
    if not context.events:
        return fix
    for_event = insertion(late, waiter, ".wait_event(", EventCode(context.events[0]), ")")
    return PendingFix((for_event,), after=early, otherwise=fix)


def _wait_for_one_of(streams: list[StreamId], context: RaceContext) -> PendingFix:
    """Return the fix that makes the later stream wait for one of several streams, preferably one with a name."""
    early, late = context.prior.site, context.current.site
    waiter = StreamCode(context.race.current.actor, is_on_current_stream(context.current))
    waits = [insertion(late, waiter, ".wait_stream(", StreamCode(stream), ")") for stream in streams]
    return first_of([PendingFix((wait,), after=early) for wait in waits])


def is_on_current_stream(label: Label) -> bool:
    """Return whether an operator ran on the current stream of its call; only library-specific operators may not."""
    effect = described_operator(label.operator)
    return effect is None or effect.stream == CURRENT


_ROWS: tuple[Row, ...] = (
    _shared_pool,
    _collective,
    _mistaken_host_wait,
    _wrong_device,
    _replay,
    _lost_record,
    _stale_handle,
)

RULES = (
    collective_result_before_wait.RULE,
    collective_buffer_modified.RULE,
    unordered_read.RULE,
    unordered_overwrite.RULE,
    unordered_write.RULE,
    unordered_first_use.RULE,
    host_read_in_flight.RULE,
    host_write_in_flight.RULE,
    lost_event_record.RULE,
    stale_stream_handle.RULE,
    graph_input_overwritten.RULE,
    unordered_graph_replays.RULE,
    *mistaken_sync.RULES,
)
"""The rules to which a race can be attributed."""
