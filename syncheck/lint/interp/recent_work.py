"""Work since a clock was first read. Incrementing a counter takes no time that a clock could miss."""

import ast
import re
from collections.abc import Iterable

from syncheck.hb.ids import UNKNOWN_SITE, NamedKind, ReadingId, SiteId, StreamId
from syncheck.lint.interp.clock_intervals import STEP_OF_OPTIMIZER, EarlyReadings, Intervals, Launch
from syncheck.lint.interp.device_tests import on_gpu
from syncheck.lint.interp.loop_waits import LoopWaits
from syncheck.lint.nodes import names, text
from syncheck.sanitizer.session import Session

QUICK = frozenset({"aten::add_", "aten::sub_", "aten::fill_", "aten::zero_", "aten::arange"})
"""Operators on a single tensor that count or reset, and those that make an index."""
_MAX_QUICK = 2
"""Maximum number of such operators that take a negligible time in total."""
_TIMED = "what timing events stand around"
_FILLING = frozenset({"aten::zeros", "aten::ones", "aten::full"})
"""Operators that create the output of a collective."""
_STEPPING = re.compile(r"opt|scaler|sched|sgd|adam", re.IGNORECASE)
"""Names of optimizers, and of what stands around them."""


class RecentWork:
    """The operators that may still be running on each stream.

    Attributes:
        ends: the first and last readings of intervals that miss only one collective, which follows a wait for all
            earlier work. Most often, this collective reduces a few statistics.
        intervals: the intervals in which the host waits for some of their work.
        early: the readings at which earlier work is running.
        is_of_unknown: whether a backward pass or an optimizer's step of unknown values has run, so that any unknown
            value may be a result of it.
        losses: the variables from which such backward passes started, and those that are assumed to be on a GPU because
            they are copied to the host. A test of their values waits.
        loops: what the iterations of loops wait for.
        is_autocast: whether networks run on a GPU, judging by an `autocast` block around them.

    Args:
        session: reports which streams have pending work.
    """

    def __init__(self, session: Session) -> None:
        self.ends: set[tuple[SiteId, SiteId]] = set()
        self.is_of_unknown = self.is_autocast = False
        self.losses: set[str] = set()
        self.loops, self.intervals, self.early = LoopWaits(), Intervals(), EarlyReadings()
        self._session = session
        self._pending: dict[StreamId, list[Launch]] | None = None
        self._n_launched = 0
        self._waited: dict[StreamId, int] = {}  # stream -> number of readings before its latest wait
        self._readings: dict[SiteId, int] = {}  # clock reading -> number of readings so far
        self._n_noted: dict[StreamId, int] = {}
        self._n_readings = 0
        self._n_timed: dict[StreamId, int] = {}
        self._at_events: dict[StreamId, int] = {}  # `_n_noted` at the latest record of a timing event

    @property
    def n_clocks(self) -> int:
        """Number of places that have read a clock."""
        return len(self._readings)

    def note_copied(self, node: ast.AST) -> None:
        """Record the variables of a call that copies something unknown to the host."""
        owner = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
        self.losses |= names(owner) - {"self"} if owner is not None else set()

    def begin(self, site: SiteId, ident: ReadingId | None = None) -> None:
        """Record that a clock is read, and track operators from now on; `ident`: the reading."""
        if ident is not None:
            self.early.read(ident, site, filter(self._is_busy, self._n_noted), self._n_launched)
        self._pending = self._pending or {}
        for stream, launches in self._pending.items():
            if launches and not self._is_busy(stream):
                self._end(stream, launches)
        waited = self._waited_before_end()
        self.ends |= {(start, site) for start, number in self._readings.items() if number <= waited}
        self._n_readings += 1
        self._readings[site] = self._n_readings
        self.intervals.read_clock(site, self._busy(), self._n_launched)
        self.loops.read_clock(site, filter(self._is_busy, self._n_noted))

    def note_wait(self, streams: Iterable[StreamId], *, is_explicit: bool) -> None:
        """Record that the host waits for some streams; `is_explicit`: it does nothing else."""
        self.loops.note_wait(streams)
        if is_explicit:
            self.early.synchronize()

    def note(self, stream: StreamId, operator: str, site: SiteId = UNKNOWN_SITE, *, is_quick: bool) -> None:
        """Record a launch; `is_quick`: the operator takes a negligible time."""
        launch, is_idle = Launch(operator, is_quick, self._n_launched), not self._is_busy(stream)
        self.early.launch(stream, launch, site, is_idle=is_idle)
        self._n_noted[stream] = self._n_noted.get(stream, 0) + 1
        self.loops.note_launch(stream)
        self._n_launched += 1
        if self._pending is None:
            return
        launches = self._pending.setdefault(stream, [])
        if launches and is_idle:
            self._end(stream, launches)
        launches.append(launch)

    def note_unknown(self, stream: StreamId, node: ast.AST, site: SiteId) -> None:
        """Record a call of unknown code that may leave work running."""
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr="step")) if _STEPPING.search(text(owner)):
                self.note(stream, STEP_OF_OPTIMIZER, site, is_quick=False)
            case _:
                self.note(stream, "unknown code", site, is_quick=False)

    def _end(self, stream: StreamId, launches: list[Launch]) -> None:
        """Record that the host has waited for some operators of a stream."""
        self._waited[stream] = self._n_readings
        self.intervals.wait(stream, launches)
        launches.clear()

    def note_timed(self, stream: StreamId) -> None:
        """Record assumed, unseen work between timing events. A clock that misses it misses nothing that is known."""
        self._n_timed[stream] = self._n_timed.get(stream, 0) + 1
        self.note(stream, _TIMED, is_quick=True)

    def is_only_taken(self, stream: StreamId) -> bool:
        """Return whether all work of a stream is only assumed."""
        return 0 < self._n_timed.get(stream, 0) == self._n_noted.get(stream, 0)

    def note_event(self, stream: StreamId) -> None:
        """Note that a timing event is recorded."""
        self._at_events[stream] = self._n_noted.get(stream, 0)

    def is_at_event(self, stream: StreamId) -> bool:
        """Return whether nothing was submitted since the latest record of a timing event."""
        return self._at_events.get(stream) == self._n_noted.get(stream, 0)

    def drop(self, stream: StreamId) -> None:
        """Drop the latest operator: the host has waited for nearly all of it."""
        if self._pending and self._pending.get(stream):
            self._pending[stream].pop()

    def take(self, test: ast.expr, skipped: list[ast.stmt], *, value: bool) -> None:
        """Record that an undetermined condition is taken to have a value; `skipped`: the branch that does not run.

        A path without a GPU misses no work.
        """
        self.loops.pass_by(skipped)
        known = on_gpu(test, strictly=False)
        if known is not None and known != value:
            self.flush()

    def flush(self) -> None:
        """Drop all operators: the allocator returns memory to CUDA, which waits for the device.

        Source: c10/cuda/CUDACachingAllocator.cpp, `release_cached_blocks`, and `cudaFree` of the CUDA Runtime API.
        """
        if self._pending is not None:
            for stream, launches in self._pending.items():
                if launches:
                    self._end(stream, launches)

    def is_next_to_nothing(self) -> bool:
        """Return whether work is pending, but takes a negligible time, such as incrementing a counter."""
        pending = [[op for op in ops if op.operator != _TIMED] for ops in self._busy().values()]
        return bool(pending) and all(len(ops) <= _MAX_QUICK and all(op.is_quick for op in ops) for ops in pending)

    def _waited_before_end(self) -> int:
        """Return the number of readings before the latest wait, if only one collective follows it; otherwise 0."""
        busy = self._busy()
        left = [launch.operator for launches in busy.values() for launch in launches if not launch.is_quick]
        work = [operator for operator in left if operator not in _FILLING]
        is_end = len(work) == 1 and work[0].startswith("c10d::")
        return min((self._waited.get(stream, 0) for stream in busy), default=0) if is_end else 0

    def _busy(self) -> dict[StreamId, list[Launch]]:
        """Return the work that is running on each stream."""
        return {stream: ops for stream, ops in (self._pending or {}).items() if self._is_busy(stream)}

    def _is_busy(self, stream: StreamId) -> bool:
        return self._session.is_pending(NamedKind.STREAM, stream)
