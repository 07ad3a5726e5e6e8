"""A run that checks windows of a program within a budget."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from itertools import count
from typing import Any

from syncheck.findings import Report, counted, joined
from syncheck.instrument.agreement import StoreAgreement, is_safe
from syncheck.instrument.failures import stopped_by
from syncheck.instrument.main_thread import call_in_main_thread, is_between_calls
from syncheck.instrument.steps import TrainingSteps
from syncheck.ranks import writer
from syncheck.run.budget import Controller, Share
from syncheck.run.run import Run
from syncheck.run.sampler import SECOND, Sampler
from syncheck.run.ticker import Ticker
from syncheck.sanitizer.collector import Checkpoint
from syncheck.system import job

_numbers = count()
"""Numbers of this process's runs."""


class SampledRun(Run):
    """A run that checks one program in windows.

    On real GPUs, each window has its own session and backend. Between windows there are none, and nothing that the
    program uses is patched. Simulated GPUs exist all the time; findings between windows are dropped.

    Attributes:
        sampler: opens and closes the windows.
        on_window: called when a window has ended; for windows of seconds, in a different thread from the program's.
        first_tick: seconds after which seconds are used as units, if there has been neither a step nor a request.
    """

    is_sampled = True

    def __init__(
        self,
        options: Any,
        *args: Any,
        clock: Callable[[], float] = time.perf_counter,
        busy_clock: Callable[[], float] = time.process_time,
    ) -> None:
        super().__init__(options, *args)
        self.on_window: Callable[[], None] = lambda: None
        self.first_tick = FIRST_TICK
        self._is_unreported = False
        self._opened: AbstractContextManager[None] | None = None
        self._at_open: Checkpoint = {}
        self._operators_before = 0
        self._found = Report()
        self._clock = clock
        self._began = clock()
        controller = Controller(options.budget, is_all_cost=self.backend.must_see_all)
        agreement = StoreAgreement(self.note_incomplete, is_expected=job.is_distributed(), number=next(_numbers))
        self.sampler = Sampler(controller, self, clock, is_safe, agreement, busy_clock)

    @property
    def _checks_whole_program(self) -> bool:
        return False

    # -- windows

    @contextmanager
    def _window(self) -> Iterator[None]:
        ticker = Ticker(self.sampler.tick, is_between_calls, self._call_on_window, call_in_main_thread)
        with (
            # first, so that the backend does not treat its thread as one of the program's
            ticker.running(self.first_tick),
            self.backend.prepared(),
            TrainingSteps(self.sampler, self.note_incomplete).watching(),
        ):
            try:
                yield
            finally:
                self.sampler.end()
                self._call_on_window()

    def open(self) -> None:
        """See `Windows`."""
        if self.backend.must_see_all:
            self.reset()
            self._at_open = self.session.collector.checkpoint()
            self._opened = nullcontext()
        else:
            self._start_over()
            self.backend.enters_threads = False  # a thread that outlives the window would keep the mode
            self._at_open = self.session.collector.checkpoint()
            self._opened = self.backend.watching()
        self._operators_before = self.session.n_operators
        self._opened.__enter__()

    def close(self) -> None:
        """See `Windows`."""
        opened, self._opened = self._opened, None
        if opened is None:
            return
        try:
            if not self.backend.must_see_all:
                self.backend.finish()
            self._found = joined(self._found, self._window_report())
        finally:
            opened.__exit__(None, None, None)
        self._is_unreported = True
        if self.sampler.unit != SECOND:
            self._call_on_window()
        super()._after_finding()  # a finding from before the window was not new in it

    def _call_on_window(self) -> None:
        """Call `on_window`, once per window; never while the main thread is interrupted, as it may hold locks."""
        if self._is_unreported:
            self._is_unreported = False
            self.sampler.guarded(self.on_window)

    def failed(self, error: Exception) -> None:
        """See `Windows`."""
        self.note_incomplete(stopped_by(error))

    def note_incomplete(self, reason: str) -> None:
        """Note why the report may be incomplete."""
        self._found = joined(self._found, Report(incomplete=(reason,)))

    # -- the report

    def _window_report(self) -> Report:
        """Return the certain findings of the open window, without those that need the whole run."""
        found = super().report(self._at_open)
        operators = found.summary.operators - self._operators_before
        return replace(found, summary=replace(found.summary, operators=operators))

    def report(self, since: Checkpoint | None = None) -> Report:
        """Return the findings of all windows so far; with a checkpoint, those of the open window since then."""
        if since is not None:
            return super().report(since)
        shares = [*self.sampler.earlier, (self.sampler.unit, self.sampler.controller.share())]
        found = joined(self._found, self._window_report()) if self._opened is not None else self._found
        seconds = self._clock() - self._began
        summary = replace(found.summary, backend=self._backend_name, seconds=seconds)
        if not (found.summary.operators or writer.is_beside_ranks() or any(share.checked for _, share in shares)):
            unit, share = shares[-1]
            found = joined(found, Report(incomplete=(_NO_WINDOW.format(_counted(share.units, unit)),)))
        if _rank() < 1:  # all ranks have the same windows, so one note is enough
            budget = self._options.budget or 0.0
            found = found.noted(*(describe_share(share, budget, unit) for unit, share in shares if share.units))
        return replace(found, summary=summary)

    def _after_finding(self) -> None:
        if self._opened is not None:
            super()._after_finding()

    def end_now(self, status: int, reason: str) -> Any:
        """See `Run`."""
        if reason:
            self.note_incomplete(reason)
        super().end_now(status, "")


def _rank() -> int:
    """Return this process's rank in its job; negative for a process without a rank that starts others, 0 if alone."""
    recorder = writer.current()
    return recorder.process.rank if recorder is not None else job.rank()


FIRST_TICK = 10.0
"""Seconds to wait for the program's first step or request before seconds are used as units instead."""
_NO_WINDOW = (
    "the program made {}, but the first window of a budget begins after two, or after about "
    f"{FIRST_TICK:.0f} seconds if there are no steps: check short programs without --budget, and mark work other than "
    "training with `with syncheck.watch().request():`"
)


def describe_share(share: Share, budget: float, unit: str) -> str:
    """Return a note on the checked share of a run and its cost."""
    bare = share.seconds - share.cost
    cost = f"{_time(share.cost)}{_percent(share.cost, bare)}"
    if unit == SECOND:  # the unchecked time is unknown, but more than nothing, so the cost is less than the whole
        return (
            f"budget {_share(budget)}: {_time(share.checked_seconds)} of {_time(share.seconds)} of processor time were "
            f"checked{_percent(share.checked_seconds, share.seconds)} in {counted(share.windows, 'window')}, as there "
            "are no steps and no requests; checking cost less than that"
        )
    return (
        f"budget {_share(budget)}: {share.checked:,} of {counted(share.units, unit)} were checked"
        f"{_percent(share.checked, share.units)} in {counted(share.windows, 'window')}, "
        f"{_time(share.checked_seconds)} of {_time(share.seconds)}"
        f"{_percent(share.checked_seconds, share.seconds)}; checking cost about {cost}"
    )


def _counted(number: int, unit: str) -> str:
    return f"{number} seconds of processor time" if unit == SECOND else counted(number, unit)


def _share(part: float) -> str:
    return f"{part * 100:.3g}%"


def _time(seconds: float) -> str:
    return f"{seconds:,.1f} s" if seconds >= 10 else f"{seconds * 1000:,.0f} ms"


def _percent(part: float, total: float) -> str:
    return f" ({_share(part / total)})" if total > 0 else ""
