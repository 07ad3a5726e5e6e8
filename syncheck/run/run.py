"""One run of a program under a backend: session, trace, report and exit status."""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Protocol

from syncheck import paths
from syncheck.config.options import Options
from syncheck.errors import BackendError
from syncheck.filters import ignore_block
from syncheck.filters.policy import Policy
from syncheck.findings import Report, Summary
from syncheck.instrument.findings import NewFindings
from syncheck.instrument.sites import SiteTable
from syncheck.overlap.recorder import Recorder
from syncheck.run import title
from syncheck.run.launcher import PreparedProgram, execute
from syncheck.run.trace.writer import TraceWriter
from syncheck.sanitizer.collector import Checkpoint, OnFinding
from syncheck.sanitizer.monitor import Monitor
from syncheck.sanitizer.session import Session
from syncheck.system import processes, signals
from syncheck.system.descriptors import Reserve

if TYPE_CHECKING:
    from syncheck.instrument.steps import LateReport

real_exit = os._exit


class Backend(Protocol):
    """What provides the GPUs and watches them."""

    is_checking: bool
    enters_threads: bool
    """Threads that the program starts are watched."""
    must_see_all: ClassVar[bool]
    """It has to watch from the first line of the program on: what it does not see made it does not know."""

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """Guards the monitor: while it is held, no thread reports anything."""
        ...

    def prepared(self) -> AbstractContextManager[None]:
        """Let what the program makes in a block be watched in it later; where all must be seen, watch it."""
        ...

    def watching(self) -> AbstractContextManager[None]:
        """Watch the program for the time of a block; everything is as before afterwards."""
        ...

    def flush_calls(self) -> None:
        """Tell the monitor all that happened so far."""
        ...

    def reset(self) -> None:
        """What comes is another program."""
        ...

    def finish(self) -> None:
        """The program has ended: look at what is left, and listen no more."""
        ...


MakeBackend = Callable[[Monitor, SiteTable, Callable[[str], None], NewFindings, Callable[[], None]], Backend]
"""Makes a backend of (monitor, call sites, how to show a note, new findings, what to call after one)."""


MakeSession = Callable[[str, OnFinding], Session]


class Run:
    """One program, checked.

    Args:
        options: how.
        make_session: makes the session that checks, given the backend in words and what it calls with each finding.
        policy: leaves out of a report what settings and comments silence.
        deliver: prints a report, given the program's own exit status, and returns the one that it calls for.
        backend_name: the backend in words.
        make_backend: makes it.

    Attributes:
        is_sampled: windows of the program are checked, as a budget allows.
        session: checks the program.
        sites: its call sites.
        recorder: keeps what it does with its GPUs, where that is wanted.

    Raises:
        BackendError: the trace cannot be written.
    """

    is_sampled = False

    def __init__(
        self,
        options: Options,
        make_session: MakeSession,
        policy: Policy,
        deliver: Callable[[Report, int], int],
        backend_name: str,
        make_backend: MakeBackend,
    ) -> None:
        self._options = options
        self._policy = policy
        self._deliver = deliver
        self._make_session, self._make_backend, self._backend_name = make_session, make_backend, backend_name
        self.sites = SiteTable()
        self._trace: TraceWriter | None = None
        self._begin_anew()
        self._delivering = threading.RLock()
        self._reserve = Reserve()
        self._late: LateReport | None = None  # where findings outside of the steps asked for are left out
        self._since: Checkpoint | None = None
        self._of_window: Report | None = None
        self._status: int | None = None  # of the report, once it has been delivered

    def _begin_anew(self) -> None:
        """Begin with a session and a backend that know of nothing."""
        options, findings = self._options, NewFindings()
        self.session = self._make_session(self._backend_name, findings.add)
        self.recorder = Recorder(self.session) if options.wants_times else None
        checked: Any = self.recorder or self.session
        if options.trace is not None:
            try:
                self._trace = TraceWriter(checked, options.trace, self.sites, self._backend_name, options.trace_size)
            except OSError as error:
                raise BackendError(f"cannot write the trace {options.trace}: {error.strerror}") from error
        self._monitor: Monitor = self._trace or checked
        self.backend = self._make_backend(self._monitor, self.sites, self.session.note, findings, self._after_finding)

    def run(self, prepared: PreparedProgram) -> int:
        """Run the program and deliver the report; return the exit status."""
        with self.watching(), self._in_title():
            outcome = execute(prepared, self.end, self._replaced)
            if outcome.is_child:
                return outcome.status
        status = self._deliver_report(outcome.status)
        if outcome.interrupted:
            end_by_interrupt()
        return outcome.status or status

    def _in_title(self) -> AbstractContextManager[None]:
        """Show how far the run is, where there is a terminal."""
        if self._options.quiet or not title.can_show(sys.stderr):
            return contextlib.nullcontext()

        began = time.monotonic()

        def text() -> str:
            return f"syncheck: {self.session.n_operators:,} operators in {time.monotonic() - began:.0f} s"

        return title.shown(text, title.writer(sys.stderr))

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch the program for the time of a block, or for the steps of it that were asked for."""
        if not _active:
            ignore_block.begin()
            paths.start_here()
        _active.append(self)
        try:
            with signals.held(), self._window():
                yield
                self.backend.finish()
        finally:
            _active.remove(self)

    def _window(self) -> AbstractContextManager[None]:
        steps = self._options.steps
        if steps is None:
            return self.backend.watching()
        from syncheck.instrument.steps import LateReport, Window  # noqa: PLC0415  it needs torch

        if not self.backend.must_see_all:
            return Window(steps, self.backend, self.session).watching()
        self._late = LateReport(self._begin_window, self._end_window)
        return _both(self.backend.watching(), Window(steps, self._late, self.session).watching())

    def _begin_window(self) -> None:
        self.reset()
        self._since = self.session.collector.checkpoint()

    def _end_window(self) -> None:
        self._of_window = self.report()

    @property
    def _is_whole(self) -> bool:
        """Return whether the program is checked from its beginning to its end."""
        return self._options.steps is None

    def report(self, since: Checkpoint | None = None) -> Report:
        """Return the findings so far, or those since a mark."""
        with self.backend.lock:
            self.backend.flush_calls()
            if self._of_window is not None:
                return self._of_window
            if self._late is not None and not self._late.is_open:  # what was found so far does not count
                self._since = self.session.collector.checkpoint()
            found = self._policy.filter(self.session.report(self.sites, self._since if since is None else since))
            is_before = self._late is not None and not self._late.is_open
            return replace(found, summary=Summary(found.summary.backend)) if is_before else found

    def reset(self) -> None:
        """Take it that all work so far is complete: what comes is another program."""
        with self.backend.lock:
            self.backend.flush_calls()
            self.session.reset()
            if self.recorder is not None:
                self.recorder.forget()
                self.backend.reset()

    def end(self, status: int) -> int:
        """Deliver the report of a program that ends with a status; return the status to end with."""
        self.backend.finish()
        own = self._deliver_report(status)
        return status or own

    def _replaced(self, path: Any, arguments: Any) -> None:
        """The program is about to replace itself by another one."""
        from syncheck.instrument import children  # noqa: PLC0415  it needs torch

        children.note_replaced(path, arguments, self.session.incomplete)

    def end_now(self, status: int, reason: str) -> NoReturn:
        """End this process with a report, from a thread that looks after the others.

        Args:
            status: the exit status if the report calls for none.
            reason: why the report may say too little; "" if that is known.
        """
        if reason:
            self.session.incomplete(reason)
        self.backend.is_checking = False
        own = self._deliver_report(status)
        with contextlib.suppress(Exception):  # whatever the program has made of it
            sys.stdout.flush()
        real_exit(own or status)

    def _deliver_report(self, program_status: int) -> int:
        with self._delivering:
            if self._status is None:
                self._reserve.release()
                if program_status == 0 and self._is_whole:
                    self._monitor.ended()
                self._status = self._deliver(self.report(), program_status)
                self._status = self._close_trace(self._status)
            return self._status

    def _close_trace(self, status: int) -> int:
        if self._trace is not None:
            try:
                self._trace.close()
            except OSError as error:
                if sys.stderr is not None:
                    sys.stderr.write(f"syncheck: the trace is incomplete: {error}\n")
                return status or 3
        return status

    def _after_finding(self) -> None:
        if self._late is not None and not self._late.is_open:
            return
        if self._options.fail_fast and self._policy.is_failing(self.report()):
            self.backend.is_checking = False
            _flush()
            status = self._deliver_report(0)
            _flush()
            real_exit(status or 1)  # of several ranks, another one may deliver


@contextmanager
def _both(outer: AbstractContextManager[None], inner: AbstractContextManager[None]) -> Iterator[None]:
    with outer, inner:
        yield


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # Python has none for a descriptor that was closed
            stream.flush()


_active: list[Run] = []


def active() -> Run | None:
    """Return the job that checks this process now, the innermost one; None if there is none."""
    return _active[-1] if _active else None


def leave_to_parent() -> None:
    """This is a forked process: what checked its parent does not check it."""
    _active.clear()


def end_by_interrupt() -> None:
    """End this process as python does after an unhandled KeyboardInterrupt: by the signal itself."""
    _flush()
    processes.end_by_interrupt(real_exit)
