"""Shared reporting facilities of the CUDA backend: the locked monitor, call sites, ids and names."""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from types import FrameType
from typing import Any

from syncheck.cuda.call_buffer import Call, CallBuffer
from syncheck.hb.ids import EventId, GraphId, NamedKind, ReadingId, SiteId, StreamId
from syncheck.instrument.failures import stopped_by
from syncheck.instrument.findings import NewFindings
from syncheck.instrument.hook_lock import HookLock
from syncheck.instrument.sites import SiteTable
from syncheck.instrument.torch_internals import current_node
from syncheck.sanitizer.monitor import Monitor
from syncheck.source.frames import frame_at
from syncheck.source.lines import PACKAGE

_MAX_FAILURES = 20
"""The number of operators that may fail to be logged before the check stops."""


class _Local(threading.local):
    """State of the calling thread.

    Attributes:
        suppressed: nesting depth of calls whose callbacks are ignored because the caller reports them itself.
        is_entered: whether the thread's operators are seen.
    """

    suppressed = 0
    is_entered = False


class Reporter:
    """Gives the parts of the backend access to the monitor.

    Attributes:
        token: marks the program's objects as belonging to this check.
        lock: guards the monitor. Reentrant, because finalizers may run in the thread that holds it.
        call_buffer: buffered calls to the monitor.
        is_checking: whether the program is being checked.
        follows: whether the monitor is passed the calling thread with each call.
        backward_site: call site of the running `backward()`; 0 if none is running.
        findings: collects new findings.
        on_checking: called when `is_checking` or `follows` has changed.
        before_flush: called before the monitor receives any call, so that frees come first.
        before_wait: called with a stream that the host waits for, before the wait is reported.
        before_call: called with the monitor before an unbuffered call.
        defer: adds a call to the log if it may be made later; returns whether it did.
        on_findings: called after a call that produced findings, with the tensors that they may be about.
        name_new: names a new object after the variable that the program binds it to.
        next_event: returns a new event id, from 1; other short-lived objects use these ids, too.
        next_graph: returns a new graph id, from 1.
        next_reading: returns a new id of a clock reading, from 1.

    Args:
        monitor: receives the program's operations.
        sites: captures call sites.
        note: shows the user a message about the run.
        findings: collects the findings that the session reports.
    """

    def __init__(self, monitor: Monitor, sites: SiteTable, note: Callable[[str], None], findings: NewFindings) -> None:
        self.token = object()
        self.lock = HookLock()
        self.call_buffer = CallBuffer(monitor, self.report_failure)
        self.sites = sites
        self.note = note
        self.findings = findings
        self.pid = os.getpid()
        self.is_checking = self.follows = False
        self.backward_site = SiteId(0)
        self.on_checking: list[Callable[[], None]] = []
        self.before_flush: list[Callable[[], None]] = []
        self.before_wait: list[Callable[[StreamId], None]] = []
        self.before_call: list[Callable[[Monitor], None]] = []
        self.defer: Callable[[Call], bool] = lambda _: False
        self.on_findings: Callable[[Sequence[Any]], None] = lambda _: None
        self.name_new: Callable[[NamedKind, int, SiteId], None] = lambda *_: None
        self._local = _Local()
        self.next_event = map(EventId, count(1)).__next__
        self.next_graph = map(GraphId, count(1)).__next__
        self.next_reading = map(ReadingId, count(1)).__next__
        self._n_failures = 0

    def set_checking(self, *, value: bool) -> None:
        """Start or stop checking the program."""
        self.is_checking = value
        for act in self.on_checking:
            act()

    # -- the monitor

    @property
    def monitor(self) -> Monitor:
        """The monitor, after all buffered calls have been flushed to it."""
        self.flush_calls()
        return self.call_buffer.monitor

    def notify(self, name: str, *arguments: Any) -> None:
        """Call a method of the monitor that returns nothing, now or later."""
        if not self.defer((name, *arguments)):
            getattr(self.monitor, name)(*arguments)

    def flush_calls(self) -> None:
        """Make the buffered calls."""
        for act in self.before_flush:
            act()
        if self.call_buffer.calls:
            with self.lock:
                self.call_buffer.flush()

    def follow_threads(self, monitor: Monitor) -> None:
        """Switch to a monitor that is passed the calling thread; called when the program starts its first thread."""
        with self.lock:
            self.flush_calls()
            self.call_buffer.monitor = monitor
            self.follows = True
            for act in self.on_checking:
                act()

    @contextmanager
    def locked_monitor(self, tensors: Sequence[Any] = ()) -> Iterator[Monitor]:
        """Provide exclusive access to the up-to-date monitor; name new findings afterwards.

        Args:
            tensors: tensors that the findings may be about.
        """
        with self.lock:
            monitor = self.monitor
            for act in self.before_call:
                act(monitor)
            yield monitor
        if self.findings.new:
            self.on_findings(tensors)

    # -- call sites

    def site(self) -> SiteId:
        """Return the call site of the program's innermost frame."""
        frame: FrameType | None = frame_at(1)
        while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
            frame = frame.f_back
        return self.sites.capture_innermost(frame, self.backward_site)

    # -- torch's callbacks

    @contextmanager
    def suppressed(self) -> Iterator[None]:
        """Ignore torch's callbacks in a block whose operations are reported by other means."""
        local = self._local
        local.suppressed += 1
        try:
            yield
        finally:
            local.suppressed -= 1

    @property
    def callbacks_suppressed(self) -> bool:
        """Return whether callbacks in this thread are to be ignored."""
        return not self.is_checking or self._local.suppressed > 0

    def thread_entered(self) -> None:
        """Note that the calling thread's operators are seen from now on."""
        self._local.is_entered = True

    @property
    def sees_thread(self) -> bool:
        """Return whether the operators of the calling thread are seen, with everything that they wait for.

        This includes the autograd engine's threads: the engine propagates the modes of the thread that called it.
        """
        return self._local.is_entered or current_node() is not None

    # -- failures

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Stop checking if a block fails, and let the program continue."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  the boundary to the user's program
            self.disable_after_error(error)

    def report_failure(self, what: str, error: BaseException) -> None:
        """Report that an operator could not be logged; stop checking only after repeated failures."""
        self._n_failures += 1
        if self._n_failures > _MAX_FAILURES:
            self.disable_after_error(error)
        else:
            self.call_buffer.monitor.incomplete(f"{what} could not be logged: {type(error).__name__}: {error}")

    def disable_after_error(self, error: BaseException) -> None:
        """Stop checking after an internal failure, and let the program continue."""
        self.set_checking(value=False)
        self.call_buffer.monitor.incomplete(stopped_by(error))

    def become_child(self) -> None:
        """Stop checking in a forked child, which cannot use CUDA."""
        self.set_checking(value=False)
        self.call_buffer.calls.clear()  # a thread that does not exist here may have held the lock
        self.lock.release_garbage()
