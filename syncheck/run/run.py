"""A run of a program under a backend: session, trace, report and exit status."""

import contextlib
import gc
import io
import os
import signal
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
from syncheck.system import job, processes, signals
from syncheck.system.descriptors import Reserve

if TYPE_CHECKING:
    from syncheck.instrument.steps import LateReport

real_exit = os._exit


class Backend(Protocol):
    """Provides the GPUs and observes them."""

    is_checking: bool
    enters_threads: bool
    """Whether threads that the program starts are observed."""
    must_see_all: ClassVar[bool]
    """Whether it must observe the program from the first line, because it knows only objects whose creation it saw."""

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """Lock on the monitor: while it is held, no other thread reports anything."""
        ...

    def prepared(self) -> AbstractContextManager[None]:
        """Prepare for windows within a block; a backend that must see everything observes the whole block."""
        ...

    def watching(self) -> AbstractContextManager[None]:
        """Observe the program during a block, and restore everything afterwards."""
        ...

    def flush_calls(self) -> None:
        """Pass all pending calls to the monitor."""
        ...

    def start_program(self) -> None:
        """Start over for another program."""
        ...

    def finish(self) -> None:
        """Process what is left at the end of the program, and stop observing."""
        ...


MakeBackend = Callable[[Monitor, SiteTable, Callable[[str], None], NewFindings, Callable[[], None]], Backend]
"""Creates a backend from (monitor, call sites, callback for notes, new findings, callback after a finding)."""


MakeSession = Callable[[str, OnFinding], Session]


class Run:
    """A checked run of one program.

    Args:
        options: the settings.
        make_session: creates the session, given the description of the backend and a callback for findings.
        policy: filters findings by settings and comments.
        deliver: prints a report, given the program's own exit status, and returns the exit status it calls for.
        backend_name: description of the backend.
        make_backend: creates the backend.

    Attributes:
        is_sampled: whether only windows of the program are checked, as a budget allows.
        session: checks the program.
        sites: its call sites.
        recorder: records the GPU work, if requested.

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
        self._start_over()
        self._delivering = threading.RLock()
        self._reserve = Reserve()
        self._late: LateReport | None = None  # set if findings outside the requested steps are dropped
        self._since: Checkpoint | None = None
        self._of_window: Report | None = None
        self._status: int | None = None  # of the report, once it has been delivered

    def _start_over(self) -> None:
        """Create a new session and a new backend."""
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
        with self.watching(), self._progress_in_title():
            outcome = execute(prepared, self.end, self._replaced, self._ended_by)
            if outcome.is_child:
                return outcome.status
        if outcome.interrupted:
            self.session.incomplete("the program was interrupted, so the rest of it did not run")
        elif outcome.exception:
            self.session.incomplete(f"the program failed ({outcome.exception}), so the rest of it did not run")
        status = self._deliver_report(outcome.status)
        if outcome.interrupted:
            end_by_interrupt()
        return outcome.status or status

    def _progress_in_title(self) -> AbstractContextManager[None]:
        """Show the progress of the run in the terminal title, if there is a terminal."""
        if self._options.quiet or not title.can_show(sys.stderr):
            return contextlib.nullcontext()

        began = time.monotonic()

        def text() -> str:
            return f"syncheck: {self.session.n_operators:,} operators in {time.monotonic() - began:.0f} s"

        return title.shown(text, title.writer(sys.stderr))

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Observe the program during a block, or during the requested steps in it."""
        if not _active:
            ignore_block.begin()
            paths.remember_start()
        _active.append(self)
        try:
            with signals.held(), self._window():
                yield
                self.backend.finish()
        finally:
            _active.remove(self)

    @contextmanager
    def _window(self) -> Iterator[None]:
        steps, backend = self._options.steps, self.backend
        if steps is None:
            with backend.watching():
                yield
            return
        from syncheck.instrument.steps import LateReport, Window, job_followed  # noqa: PLC0415  it needs torch

        with contextlib.ExitStack() as stack:
            if backend.must_see_all:
                self._late = LateReport(self._begin_window, self._end_window)
                stack.enter_context(backend.watching())
            else:
                stack.enter_context(job_followed(self.session.incomplete))
            stack.enter_context(Window(steps, self._late or backend, self.session).watching())
            yield

    def _begin_window(self) -> None:
        self.reset()
        self._since = self.session.collector.checkpoint()

    def _end_window(self) -> None:
        self._of_window = self.report()

    @property
    def _checks_whole_program(self) -> bool:
        """Return whether the program is checked from start to end."""
        return self._options.steps is None

    def report(self, since: Checkpoint | None = None) -> Report:
        """Return the findings so far, or those since a checkpoint."""
        with self.backend.lock:
            self.backend.flush_calls()
            if self._of_window is not None:
                return self._of_window
            if self._late is not None and not self._late.is_open:  # earlier findings do not count
                self._since = self.session.collector.checkpoint()
            self.session.collector.names.is_main_process = job.rank() == 0  # a spawned process may have set it since
            found = self._policy.filter(self.session.report(self.sites, self._since if since is None else since))
            is_before = self._late is not None and not self._late.is_open
            return replace(found, summary=Summary(found.summary.backend)) if is_before else found

    def lines(self) -> set[tuple[str, int]]:
        """Return (displayed path, line) of the program's call sites so far."""
        return self.sites.lines()

    def reset(self) -> None:
        """Treat all work so far as complete, and start over for another program."""
        with self.backend.lock:
            self.backend.flush_calls()
            self.session.reset()
            if self.recorder is not None:
                self.recorder.forget()
                self.backend.start_program()

    def end(self, status: int) -> int:
        """Deliver the report of a program that exits with a status; return the status to exit with."""
        self.backend.finish()
        report_status = self._deliver_report(status)
        return status or report_status

    def _ended_by(self, number: int) -> None:
        """Note that a signal ends the program."""
        name = signal.Signals(number).name
        self.session.incomplete(f"{name} ended the program, so the rest of it did not run")

    def _replaced(self, path: Any, arguments: Any) -> None:
        """Note that the program is about to replace itself with another one."""
        from syncheck.instrument import children  # noqa: PLC0415  it needs torch

        children.note_replaced(path, arguments, self.session.incomplete)

    def end_now(self, status: int, reason: str) -> NoReturn:
        """End this process with a report, from a watchdog thread.

        Args:
            status: the exit status if the report does not call for another.
            reason: why the report may be incomplete; "" if this is already noted.
        """
        if reason:
            self.session.incomplete(reason)
        self.backend.is_checking = False
        report_status = self._deliver_report(status)
        with contextlib.suppress(Exception):  # the program may have replaced it
            sys.stdout.flush()
        real_exit(report_status or status)

    def _deliver_report(self, program_status: int) -> int:
        with self._delivering:
            if self._status is None:
                self._reserve.release()
                if program_status == 0 and self._checks_whole_program:
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
            _flush_files()
            real_exit(status or 1)  # 0 if another rank delivers the report


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # None if the descriptor was closed at startup
            stream.flush()


def _flush_files() -> None:
    """Flush the files that the program has open, since it ends without closing them."""
    for file in gc.get_objects():
        if isinstance(file, io.TextIOBase | io.BufferedWriter) and not file.closed:
            with contextlib.suppress(OSError, ValueError):  # not for writing
                file.flush()


_active: list[Run] = []


def active() -> Run | None:
    """Return the innermost active run of this process; None if there is none."""
    return _active[-1] if _active else None


def reset_in_child() -> None:
    """Deactivate the parent's runs in a forked process."""
    _active.clear()


def end_by_interrupt() -> None:
    """End this process like python after an unhandled KeyboardInterrupt: by the signal itself."""
    _flush()
    processes.end_by_interrupt(real_exit)
