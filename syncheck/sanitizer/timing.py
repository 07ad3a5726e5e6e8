"""Host clocks: a difference of two readings that spans device work still running."""

from collections import OrderedDict
from dataclasses import dataclass

from syncheck.hb.clock import Epoch, VectorClock
from syncheck.hb.engine import Engine
from syncheck.hb.ids import UNKNOWN_SITE, ReadingId, SiteId, StreamId
from syncheck.rules import event_wait_is_not_host_sync, unsynchronized_timing, wrong_device_sync
from syncheck.sanitizer.classify import sync_instead, wait_instead_of_sync
from syncheck.sanitizer.collector import Collector, PendingFinding
from syncheck.sanitizer.messages import EventCode, StreamCode, StreamRef, Text
from syncheck.sanitizer.sync_history import HostSync, SyncHistory, Wait

_KEPT = 4096


@dataclass(frozen=True, slots=True)
class Reading:
    """One reading of a host clock.

    Attributes:
        submitted: each stream's last op at that moment.
        unfinished: stream -> its last op, where the host did not know it to be complete.
        launched_at: stream -> call site of its last op.
    """

    site: SiteId
    submitted: VectorClock
    unfinished: dict[StreamId, Epoch]
    launched_at: dict[StreamId, SiteId]


class Timing:
    """Follows host clock readings; the oldest are forgotten."""

    def __init__(self, engine: Engine, sync_history: SyncHistory, collector: Collector) -> None:
        self._engine = engine
        self._sync_history = sync_history
        self._collector = collector
        self._readings: OrderedDict[ReadingId, Reading] = OrderedDict()

    def read(self, reading: ReadingId, site: SiteId, launched_at: dict[StreamId, SiteId]) -> None:
        """Remember a reading; `launched_at`: the call site of each stream's last op."""
        unfinished = self._engine.unfinished()
        sites = {stream: launched_at[stream] for stream in unfinished if stream in launched_at}
        self._readings[reading] = Reading(site, self._engine.submitted(), unfinished, sites)
        if len(self._readings) > _KEPT:
            self._readings.popitem(last=False)

    def difference(self, earlier: ReadingId, later: ReadingId) -> None:
        """Check a difference of two readings."""
        first, second = self._readings.get(earlier), self._readings.get(later)
        if first is None or second is None:
            return
        for stream, epoch in second.unfinished.items():
            began = first.submitted[stream] if stream < len(first.submitted) else 0
            if epoch > began and not self._is_steady(first, second, stream):
                self._report(first, second, stream, epoch)
                return

    def _is_steady(self, first: Reading, second: Reading, stream: StreamId) -> bool:
        """Tell whether a loop keeps the same work in flight at both readings: the time between them is then right.

        What was running at the first reading was waited for in between, and what runs at the second was launched by
        the same line: the usual shape of a training loop that reads its loss before it steps.
        """
        before = first.unfinished.get(stream)
        if before is None or not self._engine.host_covers(before):
            return False
        return first.launched_at.get(stream) == second.launched_at.get(stream)

    def _report(self, first: Reading, second: Reading, stream: StreamId, epoch: Epoch) -> None:
        device = self._collector.names.streams[stream].device
        running: tuple[SiteId, Text] = (
            second.launched_at.get(stream, UNKNOWN_SITE),
            ("this work may still be running on ", StreamRef(stream)),
        )
        related: list[tuple[SiteId, Text]] = [running, (first.site, ("the first reading",))]
        read_here: tuple[SiteId, Text] = (second.site, ("the clock is read here",))
        wait = wait_instead_of_sync(self._sync_history, self._engine, epoch)
        sync = next(self._sync_history.syncs_after(epoch), None)
        if wait is not None:
            pending = _believed_wait(wait, stream, [read_here, *related])
        elif sync is not None and sync.device != device:
            pending = _wrong_device(sync, stream, device, [read_here, *related])
        else:
            pending = _unsynchronized(second.site, stream, device, related)
        self._collector.add(pending)


Related = list[tuple[SiteId, Text]]


def _believed_wait(wait: Wait, stream: StreamId, related: Related) -> PendingFinding:
    consequence: Text = ("the clock is then read while ", StreamRef(stream), " may still be working")
    facts: dict[str, Text] = {"event": (EventCode(wait.event),), "consequence": consequence}
    return PendingFinding(event_wait_is_not_host_sync.RULE, wait.site, facts, related, sync_instead(wait))


def _wrong_device(sync: HostSync, stream: StreamId, device: int, related: Related) -> PendingFinding:
    consequence: Text = ("the time then read spans work of ", StreamRef(stream), " that may still be running")
    facts: dict[str, Text] = {"synchronized": (f"cuda:{sync.device}",), "consequence": consequence}
    advice: Text = (f"call `torch.cuda.synchronize({device})` at {{line}}",)
    return PendingFinding(wrong_device_sync.RULE, sync.site, facts, related, advice)


def _unsynchronized(site: SiteId, stream: StreamId, device: int, related: Related) -> PendingFinding:
    call = f"torch.cuda.synchronize({device or ''})"
    own: Text = (StreamCode(stream, is_current=True), ".synchronize()")
    advice: Text = (f"call `{call}` (or `", *own, "`) before {line}, and before the first reading")
    return PendingFinding(unsynchronized_timing.RULE, site, {"stream": (StreamRef(stream),)}, related, advice)


RULES = (unsynchronized_timing.RULE, event_wait_is_not_host_sync.RULE, wrong_device_sync.RULE)
"""The rules that this module reports."""
