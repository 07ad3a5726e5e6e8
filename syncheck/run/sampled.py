"""A run that checks windows of a program, as many as a budget allows."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any

from syncheck.filters.policy import is_distributed, rank
from syncheck.findings import Report, counted, joined
from syncheck.instrument.agreement import StoreAgreement, is_safe
from syncheck.instrument.failures import stopped_by
from syncheck.instrument.steps import TrainingSteps
from syncheck.ranks import writer
from syncheck.run.budget import Controller, Share
from syncheck.run.run import Run
from syncheck.run.sampler import Sampler
from syncheck.sanitizer.collector import Checkpoint


class SampledRun(Run):
    """One program, checked in windows.

    On real GPUs each window has a session and a backend of its own, and between windows there is neither: nothing that
    the program uses is replaced. Simulated GPUs are there all the time; what is found between windows does not count.

    Attributes:
        sampler: opens and closes the windows.
        on_window: called when a window has ended.
    """

    is_sampled = True

    def __init__(self, options: Any, *args: Any, clock: Callable[[], float] = time.perf_counter) -> None:
        super().__init__(options, *args)
        self.on_window: Callable[[], None] = lambda: None
        self._opened: AbstractContextManager[None] | None = None
        self._at_open: Checkpoint = {}
        self._operators_before = 0
        self._found = Report()
        self._clock = clock
        self._began = clock()
        controller = Controller(options.budget, is_all_cost=self.backend.must_see_all)
        agreement = StoreAgreement(self.note_incomplete, is_expected=is_distributed())
        self.sampler = Sampler(controller, self, clock, is_safe, agreement)

    @property
    def _is_whole(self) -> bool:
        return False

    # -- windows

    def _window(self) -> AbstractContextManager[None]:
        return self._sampling()

    @contextmanager
    def _sampling(self) -> Iterator[None]:
        with self.backend.prepared(), TrainingSteps(self.sampler, self.note_incomplete).watching():
            try:
                yield
            finally:
                self.sampler.end()

    def open(self) -> None:
        """See `Windows`."""
        if self.backend.must_see_all:
            self.reset()
            self._at_open = self.session.collector.checkpoint()
            self._opened = nullcontext()
        else:
            self._begin_anew()
            self.backend.enters_threads = False  # a thread that goes on after the window would keep the mode
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
        self.on_window()
        super()._after_finding()  # one that was there before the window was not new in it

    def failed(self, error: Exception) -> None:
        """See `Windows`."""
        self.note_incomplete(stopped_by(error))

    def note_incomplete(self, reason: str) -> None:
        """Note why the report may say too little."""
        self._found = joined(self._found, Report(incomplete=(reason,)))

    # -- the report

    def _window_report(self) -> Report:
        """Return what was found in the open window: findings that are certain, and not what only a whole run shows."""
        found = super().report(self._at_open)
        operators = found.summary.operators - self._operators_before
        return replace(found, summary=replace(found.summary, operators=operators))

    def report(self, since: Checkpoint | None = None) -> Report:
        """Return the findings of all windows so far; with a mark, those of the open window since then."""
        if since is not None:
            return super().report(since)
        share = self.sampler.controller.share()
        found = joined(self._found, self._window_report()) if self._opened is not None else self._found
        seconds = self._clock() - self._began
        summary = replace(found.summary, backend=self._backend_name, seconds=seconds)
        has_children = writer.current() is not None and _rank() < 0
        if not found.summary.operators and not share.checked and not has_children:
            found = joined(found, Report(incomplete=(_NO_WINDOW.format(counted(share.units, self.sampler.unit)),)))
        if share.units and _rank() < 1:  # the windows of all ranks are the same: one line is enough
            found = found.noted(in_words(share, self._options.budget or 0.0, self.sampler.unit))
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
    """Return this process's rank in its job; below 0 for one that has none and starts others, 0 if it is alone."""
    recorder = writer.current()
    return recorder.process.rank if recorder is not None else rank()


_NO_WINDOW = (
    "the program made {}, and the first window of a budget begins after two: check a short program without --budget, "
    "and mark what is no training with `with syncheck.watch().request():`"
)


def in_words(share: Share, budget: float, unit: str) -> str:
    """Return what a budget let be checked, and what that cost."""
    bare = share.seconds - share.cost
    cost = f"{_time(share.cost)}{_percent(share.cost, bare)}"
    return (
        f"budget {_share(budget)}: {share.checked:,} of {counted(share.units, unit)} were checked"
        f"{_percent(share.checked, share.units)} in {counted(share.windows, 'window')}, "
        f"{_time(share.checked_seconds)} of {_time(share.seconds)}"
        f"{_percent(share.checked_seconds, share.seconds)}; checking cost about {cost}"
    )


def _share(part: float) -> str:
    return f"{part * 100:.3g} %"


def _time(seconds: float) -> str:
    return f"{seconds:,.1f} s" if seconds >= 10 else f"{seconds * 1000:,.0f} ms"


def _percent(part: float, whole: float) -> str:
    return f" ({_share(part / whole)})" if whole > 0 else ""
