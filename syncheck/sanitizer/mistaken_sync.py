"""Calls mistaken for a host wait, or for a wait on the right device: SYN402 and SYN502."""

from syncheck.hb.clock import ACTOR_MASK
from syncheck.hb.engine import Engine
from syncheck.hb.ids import SiteId, StreamId
from syncheck.rules import event_wait_is_not_host_sync, wrong_device_sync
from syncheck.sanitizer.collector import PendingFinding
from syncheck.sanitizer.fixes import PendingFix, insertion, replacement
from syncheck.sanitizer.messages import DeviceSyncCode, EventCode, Text
from syncheck.sanitizer.sync_history import HostSync, SyncHistory, Wait


def wait_instead_of_sync(sync_history: SyncHistory, engine: Engine, epoch: int) -> Wait | None:
    """Return the `Event.wait` that was mistaken for a host wait: it covers `epoch` and serves no other purpose.

    The wait orders a stream. If that stream received work afterwards, the wait may serve that work. If it received
    none, or is the stream that recorded the event, the wait can only have been intended for the host.
    """
    for wait in sync_history.waits_after(epoch):
        unused = engine.now(wait.waiter) == wait.submitted[wait.waiter] or wait.waiter == epoch & ACTOR_MASK
        if wait.by_event and wait.covers(epoch) and unused:
            return wait
    return None


def mistaken_wait(wait: Wait, consequence: Text, related: list[tuple[SiteId, Text]]) -> PendingFinding:
    """Return the finding for an `Event.wait` that was mistaken for a host wait.

    Args:
        wait: the call.
        consequence: description of the consequence.
        related: the related call sites.
    """
    facts: dict[str, Text] = {"event": (EventCode(wait.event),), "consequence": consequence}
    fix = PendingFix((replacement(wait.site, "wait", "synchronize()"),))
    return PendingFinding(event_wait_is_not_host_sync.RULE, wait.site, facts, related, fix=fix)


def wrong_device(
    sync: HostSync, worker: StreamId, device: int, consequence: Text, related: list[tuple[SiteId, Text]]
) -> PendingFinding:
    """Return the finding for a wait on the wrong device.

    The fix adds another wait if the existing one is needed for its own device.

    Args:
        sync: the call.
        worker: the stream with the work.
        device: that stream's device.
        consequence: description of the consequence.
        related: the related call sites.
    """
    facts: dict[str, Text] = {"synchronized": (f"cuda:{sync.device}",), "consequence": consequence}
    if sync.is_device_wide and not sync.is_needed:
        edit = replacement(sync.site, "synchronize", f"synchronize({device})")
    else:
        edit = insertion(sync.site, DeviceSyncCode(worker))
    return PendingFinding(wrong_device_sync.RULE, sync.site, facts, related, fix=PendingFix((edit,), is_unsafe=True))


RULES = (event_wait_is_not_host_sync.RULE, wrong_device_sync.RULE)
"""The rules that this module reports."""
