"""From a race to the rule that explains it best: one readable decision table, the most specific row first."""

from collections.abc import Callable
from typing import TypeAlias

from syncheck.hb.clock import ACTOR_MASK
from syncheck.hb.engine import Engine
from syncheck.rules import (
    collective_buffer_modified,
    collective_result_before_wait,
    event_wait_is_not_host_sync,
    graph_input_overwritten,
    host_read_in_flight,
    host_write_in_flight,
    lost_event_record,
    stale_stream_handle,
    unordered_first_use,
    unordered_overwrite,
    unordered_read,
    unordered_write,
    wrong_device_sync,
)
from syncheck.rules.model import Severity
from syncheck.sanitizer.collector import Draft
from syncheck.sanitizer.messages import EventCode, EventRef, Part, StreamCode, StreamRef, Text
from syncheck.sanitizer.race_context import UNSEEN_WRITE, Scene
from syncheck.sanitizer.sync_history import Evidence, Wait

Row: TypeAlias = Callable[[Scene], Draft | None]


def explain(scene: Scene) -> Draft:
    """Return the finding for a race: the first row that knows its cause, else the plain rule."""
    for row in _ROWS:
        draft = row(scene)
        if draft is not None:
            draft.allocation = scene.race.allocation
            return draft
    return _plain(scene)


def wait_instead_of_sync(evidence: Evidence, engine: Engine, epoch: int) -> Wait | None:
    """Return the `Event.wait` that was taken for a host wait: it covers `epoch`, and nothing else needed it.

    It orders a stream. Where that stream got work afterwards, it may be there for that work; where it got none, or
    is the stream that recorded the event, the wait can only be meant for the host.
    """
    for wait in evidence.waits_after(epoch):
        unused = engine.now(wait.waiter) == wait.submitted[wait.waiter] or wait.waiter == epoch & ACTOR_MASK
        if wait.by_event and wait.covers(epoch) and unused:
            return wait
    return None


# -- the rows


def _replay(scene: Scene) -> Draft | None:
    race = scene.race
    if scene.is_host or not (scene.prior.is_replay or scene.current.is_replay):
        return None
    facts: dict[str, Text] = {
        "stream": (StreamRef(race.current.actor),),
        "verb": ("overwrites" if race.current.is_write else "reads",),
        "tensor": (scene.tensor,),
        "other": (StreamRef(race.prior.actor),),
    }
    if scene.current.is_replay and not scene.prior.is_replay:  # name the program's own access as the culprit
        facts["stream"], facts["other"] = facts["other"], facts["stream"]
        facts["verb"] = ("writes" if race.prior.is_write else "reads",)
        place, other, message = scene.prior.site, scene.current.site, "the replay that is not ordered with it"
        advice = _advice_wait(scene, "before the replay")
    else:
        place, other, message = scene.current.site, scene.prior.site, "the replay"
        advice = _advice_wait(scene)
    return Draft(graph_input_overwritten.RULE, place, facts, [(other, (message,))], advice)


def _collective(scene: Scene) -> Draft | None:
    """A collective that was started with `async_op=True`, and not waited for on the stream that uses its tensors."""
    race = scene.race
    name = collective_name(scene.prior.operator)
    if scene.is_host or not name or not scene.is_communication(race.prior.actor):
        return None
    facts: dict[str, Text] = {"collective": (f"`{name}`",)}
    related: list[tuple[int, Text]] = [(scene.prior.site, ("it was started here",))]
    advice: Text = ("call `wait()` on its handle before {line}, where ", StreamRef(race.current.actor), " is current")
    if race.current.is_write:
        facts["tensor"] = (scene.tensor,)
        return Draft(collective_buffer_modified.RULE, scene.current.site, facts, related, advice)
    return Draft(collective_result_before_wait.RULE, scene.current.site, facts, related, advice)


def collective_name(operator: str) -> str:
    """Return the name in torch.distributed of a collective's operator; "" for any other operator.

    Source:
        torch/csrc/distributed/c10d/Ops.cpp; torch/distributed/distributed_c10d.py.
    """
    namespace, _, base = operator.partition("::")
    if namespace not in {"c10d", "_c10d_functional"}:
        return ""
    return _NAMES.get(base, base.strip("_"))


_NAMES = {
    "allreduce_": "all_reduce", "allreduce_coalesced_": "all_reduce_coalesced", "allgather_": "all_gather",
    "_allgather_base_": "all_gather_into_tensor", "allgather_coalesced_": "all_gather_coalesced",
    "allgather_into_tensor_coalesced_": "all_gather_into_tensor", "_reduce_scatter_base_": "reduce_scatter_tensor",
    "reduce_scatter_tensor_coalesced_": "reduce_scatter_tensor", "alltoall_": "all_to_all",
    "alltoall_base_": "all_to_all_single", "send": "isend", "recv_": "irecv", "recv_any_source_": "irecv",
}  # fmt: skip


def _host_wait_belief(scene: Scene) -> Draft | None:
    if not scene.is_host:
        return None
    wait = wait_instead_of_sync(scene.evidence, scene.engine, scene.race.prior.epoch)
    if wait is None:
        return None
    verb = "changes" if scene.race.current.is_write else "reads"
    doing = "writing" if scene.race.prior.is_write else "reading"
    facts: dict[str, Text] = {
        "event": (EventCode(wait.event),),
        "consequence": (
            f"the host {verb} ",
            scene.tensor,
            " while ",
            StreamRef(scene.race.prior.actor),
            f" may still be {doing} it",
        ),
    }
    related = [(scene.current.site, (f"the host {verb} it here",)), (scene.prior.site, scene.did)]
    return Draft(event_wait_is_not_host_sync.RULE, wait.site, facts, related, sync_instead(wait))


def sync_instead(wait: Wait) -> Text:
    """Return the cure of an `Event.wait` taken for a host wait."""
    return ("call `", EventCode(wait.event), ".synchronize()` instead of `.wait()` at {line}")


def _wrong_device(scene: Scene) -> Draft | None:
    epoch = scene.race.prior.epoch
    worker = scene.race.prior.actor
    if scene.race.is_first_use:
        return None
    sync = next(scene.evidence.syncs_after(epoch), None)
    if sync is None or sync.device == scene.device(worker):
        return None
    who: Part = "the host" if scene.is_host else StreamRef(scene.race.current.actor)
    verb = "writes" if scene.race.current.is_write else "reads"
    facts: dict[str, Text] = {
        "synchronized": (f"cuda:{sync.device}",),
        "consequence": (who, f" then {verb} ", scene.tensor, ", on which ", StreamRef(worker), " may still be working"),
    }
    related: list[tuple[int, Text]] = [(scene.current.site, (who, f" {verb} it here")), (scene.prior.site, scene.did)]
    device = scene.device(worker)
    advice: Text = (f"call `torch.cuda.synchronize({device})` at {{line}}",)
    return Draft(wrong_device_sync.RULE, sync.site, facts, related, advice)


def _lost_record(scene: Scene) -> Draft | None:
    race = scene.race
    for lost in scene.evidence.lost_covering(race.prior.epoch):
        if _waited_for(scene, lost.event):
            facts: dict[str, Text] = {
                "event": (EventRef(lost.event),),
                "stream": (StreamRef(lost.stream),),
                "consequence": (StreamRef(race.current.actor), " then uses ", scene.tensor, " unordered"),
            }
            related: list[tuple[int, Text]] = [
                (lost.site, ("the record that was lost",)),
                (scene.current.site, ("the use that needed it",)),
                (scene.prior.site, scene.did),
            ]
            advice: Text = ("record another event at {line}, or wait for ", EventRef(lost.event), " before it")
            return Draft(lost_event_record.RULE, lost.second_site, facts, related, advice)
    return None


def _waited_for(scene: Scene, event: int) -> bool:
    """Tell whether the late side of the race waited for an event in between."""
    epoch = scene.race.prior.epoch
    if scene.is_host:
        return any(sync.event == event for sync in scene.evidence.syncs_after(epoch))
    waits = scene.evidence.waits_after(epoch)
    return any(w.event == event and w.waiter == scene.race.current.actor and w.acquired is not None for w in waits)


def _stale_handle(scene: Scene) -> Draft | None:
    if scene.is_host:
        return None
    reader = scene.race.current.actor
    for wait in scene.evidence.waits_after(scene.race.prior.epoch):
        stale = _stale_in(wait, scene)
        if stale is None:
            continue
        site, named, actual = stale
        facts: dict[str, Text] = {
            "named": (StreamRef(named),),
            "actual": (StreamRef(actual),),
            "consequence": (scene.tensor, " is then used unordered"),
        }
        related = [(scene.current.site, (StreamRef(reader), " uses it here")), (scene.prior.site, scene.did)]
        advice: Text = ("name ", StreamRef(actual), " at {line}, looked up where its work is submitted")
        return Draft(stale_stream_handle.RULE, site, facts, related, advice)
    return None


def _stale_in(wait: Wait, scene: Scene) -> tuple[int, int, int] | None:
    """Return (call site, stream named, stream meant) if a wait, or its event's record, names a stream by mistake.

    Only a stream that came from `current_stream()` or `default_stream()` can be a mistake of this kind, and only
    where the stream that was meant is current at the call, or where a stream is told to wait for itself.
    """
    reader, writer = scene.race.current.actor, scene.race.prior.actor
    recorded_on, record_site, record_looked_up, record_current = wait.recorded
    if wait.waiter == reader:
        if wait.target not in {0, writer} and wait.looked_up[1] and (wait.current == writer or wait.target == reader):
            return wait.site, wait.target, writer
        if recorded_on not in {0, writer} and record_looked_up and record_current == writer:
            return record_site, recorded_on, writer
    elif (
        wait.looked_up[0]
        and wait.covers(scene.race.prior.epoch)
        and (wait.current == reader or wait.waiter == wait.target)
    ):
        return wait.site, wait.waiter, reader
    return None


def _plain(scene: Scene) -> Draft:
    if scene.is_host:
        return _plain_host(scene)
    race = scene.race
    now, before = (StreamRef(race.current.actor),), (StreamRef(race.prior.actor),)
    facts: dict[str, Text] = {"tensor": (scene.tensor,)}
    message = scene.did
    if race.is_first_use:
        rule = unordered_first_use.RULE
        facts |= {"stream": now, "allocator": before}
        message = ("its memory was allocated here, on ", StreamRef(race.prior.actor))
    elif not race.current.is_write:
        rule = unordered_read.RULE
        facts |= {"reader": now, "writer": before}
    elif race.prior.is_write:
        rule = unordered_write.RULE
        facts |= {"writer": now, "earlier": before}
    else:
        rule = unordered_overwrite.RULE
        facts |= {"writer": now, "reader": before}
    return Draft(rule, scene.current.site, facts, [(scene.prior.site, message)], _advice_wait(scene))


def _plain_host(scene: Scene) -> Draft:
    race = scene.race
    facts: dict[str, Text] = {"tensor": (scene.tensor,), "stream": (StreamRef(race.prior.actor),)}
    rule = host_read_in_flight.RULE
    if race.current.is_write:
        rule = host_write_in_flight.RULE
        facts["verb"] = ("writing" if race.prior.is_write else "reading",)
    if scene.current.operator == UNSEEN_WRITE:
        advice: Text = ("it was changed between that copy and {line}: let the host wait for the copy before it writes",)
    elif scene.covering_event:
        advice = ("add `", EventCode(scene.covering_event), ".synchronize()` before {line}")
    else:
        own: Text = (StreamCode(race.prior.actor), ".synchronize()")
        advice = ("record an event after the copy and call its `synchronize()` before {line}, or `", *own, "`")
    draft = Draft(rule, scene.current.site, facts, [(scene.prior.site, scene.did)], advice)
    if scene.current.is_escape:
        draft.level = Severity.WARNING
    return draft


def _advice_wait(scene: Scene, where: str = "before {line}") -> Text:
    reader, writer = scene.race.current.actor, scene.race.prior.actor
    # at the use, the stream that uses it is the current one: that needs no name
    return ("add `", StreamCode(reader, is_current=True), ".wait_stream(", StreamCode(writer), f")` {where}")


_ROWS: tuple[Row, ...] = (_collective, _host_wait_belief, _wrong_device, _replay, _lost_record, _stale_handle)

RULES = (
    collective_result_before_wait.RULE,
    collective_buffer_modified.RULE,
    unordered_read.RULE,
    unordered_overwrite.RULE,
    unordered_write.RULE,
    unordered_first_use.RULE,
    host_read_in_flight.RULE,
    host_write_in_flight.RULE,
    event_wait_is_not_host_sync.RULE,
    lost_event_record.RULE,
    stale_stream_handle.RULE,
    wrong_device_sync.RULE,
    graph_input_overwritten.RULE,
)
"""The rules that a race can become."""
