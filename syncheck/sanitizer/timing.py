"""Checks of host clocks: differences between two readings that span unfinished device work."""

from collections import Counter, OrderedDict
from dataclasses import dataclass
from functools import partial

from syncheck.hb.clock import Epoch, VectorClock
from syncheck.hb.engine import Engine
from syncheck.hb.ids import UNKNOWN_SITE, ReadingId, SiteId, StreamId
from syncheck.rules import unsynchronized_timing
from syncheck.sanitizer import mistaken_sync
from syncheck.sanitizer.collector import Collector, PendingFinding
from syncheck.sanitizer.fixes import PendingFix, insertion
from syncheck.sanitizer.messages import DeviceSyncCode, StreamRef, Text
from syncheck.sanitizer.mistaken_sync import mistaken_wait, wait_instead_of_sync, wrong_device
from syncheck.sanitizer.sync_history import SyncHistory
from syncheck.source.measured_times import function_at, is_measured

_KEPT = 4096


@dataclass(frozen=True, slots=True)
class Reading:
    """One reading of a host clock.

    Attributes:
        submitted: each stream's last op at that moment.
        unfinished: stream -> its last op, for streams that the host did not know to be complete.
        launched_at: stream -> call site of its last op.
    """

    site: SiteId
    submitted: VectorClock
    unfinished: dict[StreamId, Epoch]
    launched_at: dict[StreamId, SiteId]


class Timing:
    """Tracks host clock readings; the oldest are evicted."""

    def __init__(self, engine: Engine, sync_history: SyncHistory, collector: Collector) -> None:
        self._engine = engine
        self._sync_history = sync_history
        self._collector = collector
        self._readings: OrderedDict[ReadingId, Reading] = OrderedDict()
        self._reported: Counter[SiteId] = Counter()  # call site of a later reading -> how often it missed work
        self._at_begin: Counter[SiteId] = Counter()  # how often of these in the first iteration of a loop
        self._missed_since: dict[
            SiteId, SiteId
        ] = {}  # later reading -> the earlier one, if the latest time missed work

    def read(self, reading: ReadingId, site: SiteId, launched_at: dict[StreamId, SiteId]) -> None:
        """Store a reading; `launched_at`: the call site of each stream's last op."""
        unfinished = self._engine.unfinished()
        sites = {stream: launched_at[stream] for stream in unfinished if stream in launched_at}
        self._readings[reading] = Reading(site, self._engine.submitted(), unfinished, sites)
        if len(self._readings) > _KEPT:
            self._readings.popitem(last=False)

    def difference(self, earlier: ReadingId, later: ReadingId) -> None:
        """Check the difference between two readings."""
        first, second = self._readings.get(earlier), self._readings.get(later)
        if first is None or second is None:
            return
        for stream, epoch in second.unfinished.items():
            began = first.submitted[stream] if stream < len(first.submitted) else 0
            if epoch <= began:
                continue
            if not self._is_steady_state(first, second, stream):
                self._reported[second.site] += 1
                self._missed_since[second.site] = first.site
                self._report(first, second, stream, epoch)
                return
            if self._missed_since.pop(second.site, first.site) != first.site:
                self._at_begin[second.site] += 1  # that time began before the loop, and this one inside

    def _is_steady_state(self, first: Reading, second: Reading, stream: StreamId) -> bool:
        """Return whether a loop has the same work in flight at both readings, so that the time between them is correct.

        The work in flight at the first reading was waited for in between, and the work at the second was launched by
        the same line. This is common in training loops that read the loss before the optimizer step.
        """
        before = first.unfinished.get(stream)
        if before is None or not self._engine.host_covers(before):
            return False
        return first.launched_at.get(stream) == second.launched_at.get(stream)

    def _is_irrelevant(self, site: SiteId) -> bool:
        """Return whether a reading is not worth a finding, judging by what has happened until the end.

        A reading in a loop may miss work in first iterations only, and be steady from then on. The linter interprets
        too few iterations to tell.
        """
        is_off_at_begin_only = self._collector.names.is_run and self._at_begin[site] == self._reported[site]
        return is_off_at_begin_only or self._excludes_gpu_work(site)

    def _report(self, first: Reading, second: Reading, stream: StreamId, epoch: Epoch) -> None:
        device = self._collector.names.streams[stream].device
        launched = second.launched_at.get(stream, UNKNOWN_SITE)
        running: tuple[SiteId, Text] = (launched, ("this work may still be running on ", StreamRef(stream)))
        related: list[tuple[SiteId, Text]] = [running, (first.site, ("clock started here",))]
        read_here: tuple[SiteId, Text] = (second.site, ("clock read here",))
        wait = wait_instead_of_sync(self._sync_history, self._engine, epoch)
        sync = next(self._sync_history.syncs_after(epoch), None)
        if wait is not None:
            consequence: Text = ("the clock is then read while ", StreamRef(stream), " may still be working")
            pending = mistaken_wait(wait, consequence, [read_here, *related])
        elif sync is not None and sync.device != device:
            consequence = ("the time then read spans work of ", StreamRef(stream), " that may still be running")
            pending = wrong_device(sync, stream, device, consequence, [read_here, *related])
        else:
            edits = [insertion(second.site, DeviceSyncCode(stream))]
            if first.unfinished:
                edits.append(insertion(first.site, DeviceSyncCode(stream))._replace(is_first=True))
            fix = PendingFix(tuple(edits), is_unsafe=True, after=launched)
            facts: dict[str, Text] = {"stream": (StreamRef(stream),)}
            pending = PendingFinding(unsynchronized_timing.RULE, second.site, facts, related, fix=fix)
        pending.irrelevant = partial(self._is_irrelevant, second.site)
        self._collector.add(pending)

    def _excludes_gpu_work(self, site: SiteId) -> bool:
        """Return whether the time that a reading ends is not meant to include GPU work, such as that of a limit."""
        sites = self._collector.names.sites
        scopes = sites.lines_of(site)[0].scopes if sites is not None else None
        if sites is None or scopes is None:
            return False
        frame = sites.location(site).frame
        is_main_process = self._collector.names.is_main_process
        return not is_measured(frame, function_at(scopes.tree, frame.line), is_main_process=is_main_process)


RULES = (unsynchronized_timing.RULE, *mistaken_sync.RULES)
"""The rules that this module reports."""
