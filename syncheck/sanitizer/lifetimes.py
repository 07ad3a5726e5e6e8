"""Lifetimes of allocations: memory that is reused too early, and useless calls to `record_stream`."""

from collections import Counter

from syncheck.hb.clock import HOST, TICK
from syncheck.hb.engine import HOST_POOL, Engine, Race
from syncheck.hb.ids import UNKNOWN_SITE, Accesses, AllocationId, SiteId, StreamId, ViewId
from syncheck.hb.memory import FreedAccess, Note
from syncheck.sanitizer import misuse
from syncheck.sanitizer.collector import Collector, PendingFinding
from syncheck.sanitizer.graphs import GRAPH_POOLS, Graphs
from syncheck.sanitizer.labels import Labels
from syncheck.sanitizer.messages import StreamRef, Text
from syncheck.sanitizer.views import Views
from syncheck.witness.schedule import LaunchId, Pair

_KEPT_RECORDS = 4096
"""Number of allocations whose useless `record_stream` is remembered; the oldest are evicted first."""
_MAX_NAMED = 20
"""Number of tensors of one operator that are reported, and so named, by themselves; the others count as one."""
_NOTHING: tuple[list[FreedAccess], SiteId] = ([], UNKNOWN_SITE)


class Lifetimes:
    """Tracks allocations from creation to free.

    Attributes:
        engine: the order of the program, or of the inside of a capture.
        reused: allocation not used yet -> uses of freed memory that it may receive, and its call site.
        unnamed: label of a use -> its findings about tensors that were already freed when they were found.
    """

    def __init__(self, engine: Engine, collector: Collector, graphs: Graphs, labels: Labels, views: Views) -> None:
        self.engine = engine
        self._collector = collector
        self._graphs = graphs
        self._labels = labels
        self._views = views
        self._numbers: dict[SiteId, int] = {}  # call site -> label of an allocation there
        self.reused: dict[AllocationId, tuple[list[FreedAccess], SiteId]] = {}
        self.unnamed: dict[int, list[tuple[FreedAccess, PendingFinding]]] = {}
        # allocation -> call site of a record_stream of its own stream
        self._self_recorded: dict[AllocationId, SiteId] = {}
        self._captured: Lifetimes | None = None  # those of the capture in progress, or of the last one
        self.begin()

    def begin(self) -> None:
        """Begin a part of the program that is reported by itself: earlier calls of `record_stream` do not count."""
        # record_stream call sites that protected something at least once, or were meant to prevent a SYN201
        self._needed: set[SiteId] = set()
        # the same, and those that have recorded another stream than the tensor's own, which may have protected it
        self._perhaps_needed: set[SiteId] = set()

    def allocate(self, allocation: AllocationId, home: StreamId, n_bytes: int, pool: int, site: SiteId) -> None:
        """See `Monitor`."""
        if self._graphs.capture is not None and self._graphs.is_capturing(home):
            pool = GRAPH_POOLS
            self._graphs.allocated(allocation, home, n_bytes)
            self._of_capture(self._graphs.capture.engine).begin_life(allocation, home, n_bytes, 0, site)
        elif home == HOST:
            pool = HOST_POOL
        self.begin_life(allocation, home, n_bytes, pool, site)

    def begin_life(self, allocation: AllocationId, home: StreamId, n_bytes: int, pool: int, site: SiteId) -> None:
        """Allocate memory of a pool, whatever is being captured."""
        label = self._numbers.get(site)
        if label is None:
            label = self._numbers[site] = self._labels.number(site, "allocation")
        reused = self.engine.allocate(allocation, home, n_bytes, pool, label)
        if reused:
            self.reused[allocation] = reused, site

    def _of_capture(self, engine: Engine) -> "Lifetimes":
        """Return the lifetimes inside a capture, given its engine: within one capture, freed memory is used again.

        Source:
            c10/cuda/CUDACachingAllocator.cpp: a capture allocates from a pool of its own like any other program.
        """
        if self._captured is None or self._captured.engine is not engine:
            self._captured = Lifetimes(engine, self._collector, self._graphs, self._labels, self._views)
        return self._captured

    def launch_in_capture(self, stream: StreamId, operator: str, accesses: Accesses, label: int) -> list[Race]:
        """Record a captured launch; report its use of memory that another branch of the graph may still be using."""
        races = self._graphs.launch(stream, operator, accesses, label)
        capture = self._graphs.capture
        if capture is not None and capture.graph.owned:
            self._of_capture(capture.engine).first_use(stream, accesses)
        return races

    def holds_used_memory(self) -> bool:
        """See `Monitor`."""
        return bool(self.reused or self.unnamed) or self.engine.holds_used_memory()

    def first_use(self, stream: StreamId, accesses: Accesses) -> None:
        """Report reused memory whose first use, just launched on a stream, is not ordered after its old uses."""
        for allocation, _, _ in accesses:
            reused, site = self.reused.pop(allocation, _NOTHING)
            uses = [freed for freed in reused if not self.engine.covers(stream, freed.use.epoch)]
            launch = LaunchId(stream, self.engine.now(stream) // TICK)
            self._report_reuses(uses, site, launch)

    def note_repeated_use(self, accesses: Accesses, label: int) -> None:
        """Match the accesses of a repeated operator to earlier freed tensors, whose names they reveal."""
        waiting = self.unnamed[label]
        for allocation, view, is_write in accesses:
            for freed, pending in waiting:
                is_same = is_write == freed.use.is_write and self._views.covers_exactly(view, freed.use.footprint)
                if is_same and self.engine.home_of(allocation) == freed.home:
                    waiting.remove((freed, pending))
                    self._collector.note_repetition(pending, allocation)
                    break
        if not waiting:
            del self.unnamed[label]

    def report_unused(self, allocation: AllocationId) -> None:
        """Report the reuse of memory by an allocation without a known use, because unseen uses are possible."""
        reused, site = self.reused.pop(allocation, _NOTHING)
        uses = [freed for freed in reused if not self.engine.stream_covers(freed.home, freed.use.epoch)]
        for home in dict.fromkeys(freed.home for freed in uses):
            launch = LaunchId(home, self.engine.now(home) // TICK + 1)
            self._report_reuses([freed for freed in uses if freed.home == home], site, launch)

    def report_all_unused(self) -> None:
        """Call `report_unused` for all allocations at the end of the program."""
        for allocation in list(self.reused):
            self.report_unused(allocation)

    def _report_reuses(self, uses: list[FreedAccess], site: SiteId, later: LaunchId) -> None:
        """Report each tensor that one op used; `later` may receive their memory, allocated at `site`."""
        numbers = Counter[tuple[int, int]]()
        for freed in uses:
            kind = freed.use.label, freed.allocation_label
            self._report_reuse(freed, site, later, min(numbers[kind], _MAX_NAMED))
            numbers[kind] += 1

    def _report_reuse(self, freed: FreedAccess, site: SiteId, later: LaunchId, number: int) -> None:
        labels = self._labels
        sites = (labels[freed.allocation_label].site, labels[freed.free_label].site, site)
        view = self._views.of(freed.use.footprint)
        user = self._collector.names.streams[freed.use.actor]
        pending = misuse.reuse(freed, view, labels[freed.use.label], sites, user)
        if self._graphs.capture is None:  # otherwise, the launches are those of a graph
            pending.pair = Pair(LaunchId(freed.use.actor, freed.use.epoch // TICK), later)
        is_new = self._collector.add(pending, sites[0], number) is pending
        if is_new and pending.fix is not None:
            self.unnamed.setdefault(freed.use.label, []).append((freed, pending))
        if freed.allocation in self._self_recorded:
            self._needed.add(self._self_recorded[freed.allocation])
            self._perhaps_needed.add(self._self_recorded[freed.allocation])

    def free(self, allocation: AllocationId, site: SiteId) -> None:
        """See `Monitor`."""
        if self.reused:
            self.report_unused(allocation)
        if not self._graphs.has_graphs and self.engine.free_private(allocation):
            return
        recorded = self.engine.records(allocation)
        allocated = self._labels[self.engine.allocation_label(allocation)].site
        self._graphs.freed(allocation, site, allocated)
        capture = self._graphs.capture
        if capture is not None and allocation in capture.graph.owned:
            self._of_capture(capture.engine).end_life(allocation, site)
        freed = self.engine.free(allocation, self._labels.number(site, "free"))
        if len(self._self_recorded) > _KEPT_RECORDS:
            del self._self_recorded[next(iter(self._self_recorded))]
        self._needed.update(recorded[stream].site for stream in freed.useful_records)
        for stream in freed.useless_records:
            note = recorded[stream]
            if not note.site:
                continue  # torch itself calls it, for a communication
            reason: Text = (StreamRef(stream), " is waited for before the free, so the call only delays the reuse")
            pending = misuse.useless_record(allocation, note.view, note.site, reason, (site, allocated))
            pending.exempt = self._needed
            self._collector.add(pending)

    def end_life(self, allocation: AllocationId, site: SiteId) -> None:
        """Free memory, whatever is being captured."""
        self.reused.pop(allocation, None)
        self.engine.free(allocation, self._labels.number(site, "free"))

    def record_stream(self, allocation: AllocationId, view: ViewId, stream: StreamId, site: SiteId) -> None:
        """See `Monitor`."""
        capture = self._graphs.capture
        if capture is not None and self._graphs.is_capturing(stream):
            if allocation in capture.graph.owned:
                capture.engine.record_stream(allocation, stream)
            return
        home = self.engine.home_of(allocation)
        note = Note(site, view, self.engine.now(home) if home != HOST else 0)
        if self.engine.record_stream(allocation, stream, note) and site:  # otherwise torch itself calls it
            self._self_recorded[allocation] = site
            reason: Text = ("it names the stream that the tensor was allocated on",)
            allocated = self._labels[self.engine.allocation_label(allocation)].site
            pending = misuse.useless_record(allocation, view, site, reason, (allocated,))
            pending.exempt = self._perhaps_needed
            self._collector.add(pending)
        elif site and stream in self.engine.records(allocation):
            self._perhaps_needed.add(site)
