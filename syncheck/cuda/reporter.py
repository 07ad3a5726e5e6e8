"""What every part of the CUDA backend needs to report: the monitor behind its lock, call sites, ids and names."""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

from syncheck.cuda.call_buffer import CallBuffer
from syncheck.hb.ids import EventId, GraphId, NamedKind, ReadingId, SiteId, StreamId
from syncheck.instrument.failures import stopped_by
from syncheck.instrument.findings import NewFindings
from syncheck.instrument.sites import SiteTable
from syncheck.instrument.torch_internals import current_node
from syncheck.sanitizer.monitor import Monitor
from syncheck.source.frames import frame_at
from syncheck.source.lines import PACKAGE

_MAX_FAILURES = 20
"""Operators that may fail to be logged before the check ends."""


class _Local(threading.local):
    """The calling thread.

    Attributes:
        suppressed: the depth of calls whose callbacks report what is known already.
        is_entered: its operators are seen.
    """

    suppressed = 0
    is_entered = False


class Reporter:
    """Gives the parts of the backend access to the monitor.

    Attributes:
        token: marks the program's objects as known to this check.
        lock: guards the monitor. Finalizers may call in again from the thread that holds it.
        call_buffer: calls of the monitor that nothing waits for.
        is_checking: the program is watched.
        follows: the monitor is given the thread that acts.
        backward_site: where the program called the `backward()` that runs now; 0 if none does.
        findings: those that are new.
        on_checking: called when one of these two has changed.
        before_flush: called before the monitor gets any call, so that frees come first.
        before_wait: called with a stream before the monitor gets the operator in which the host has waited for it.
        before_call: called with the monitor before a call that is not buffered.
        on_findings: called after a call that completed findings, with tensors that they may be about.
        name_new: gives a new object the name that the program binds it to.

    Args:
        monitor: receives what the program does.
        sites: captures call sites.
        note: shows the user something about the run.
        findings: gets the findings that the session completes.
    """

    def __init__(self, monitor: Monitor, sites: SiteTable, note: Callable[[str], None], findings: NewFindings) -> None:
        self.token = object()
        self.lock = threading.RLock()
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
        self.on_findings: Callable[[Sequence[Any]], None] = lambda _: None
        self.name_new: Callable[[NamedKind, int, SiteId], None] = lambda *_: None
        self._local = _Local()
        self._n_events = self._n_graphs = self._n_readings = 0
        self._n_failures = 0

    def set_checking(self, *, value: bool) -> None:
        """Watch the program from now on, or do not."""
        self.is_checking = value
        for act in self.on_checking:
            act()

    # -- the monitor

    @property
    def monitor(self) -> Monitor:
        """The monitor, which has got all that happened so far."""
        self.flush_calls()
        return self.call_buffer.monitor

    def flush_calls(self) -> None:
        """Make the calls that wait in the buffer."""
        for act in self.before_flush:
            act()
        if self.call_buffer.calls:
            with self.lock:
                self.call_buffer.flush()

    def follow_threads(self, monitor: Monitor) -> None:
        """The program starts its first thread: what comes goes to a monitor that is given the thread that acts, too."""
        with self.lock:
            self.flush_calls()
            self.call_buffer.monitor = monitor
            self.follows = True
            for act in self.on_checking:
                act()

    @contextmanager
    def locked_monitor(self, tensors: Sequence[Any] = ()) -> Iterator[Monitor]:
        """Give access to the monitor, which knows of all frees so far; name the findings that come of it.

        Args:
            tensors: what the findings may be about.
        """
        with self.lock:
            monitor = self.monitor
            for act in self.before_call:
                act(monitor)
            yield monitor
        if self.findings.new:
            self.on_findings(tensors)

    # -- ids and call sites

    def next_event(self) -> EventId:
        """Return a new id, from 1; other objects that come and go have ids of this kind, too."""
        self._n_events += 1
        return EventId(self._n_events)

    def next_graph(self) -> GraphId:
        """Return a new id, from 1."""
        self._n_graphs += 1
        return GraphId(self._n_graphs)

    def next_reading(self) -> ReadingId:
        """Return a new id, from 1."""
        self._n_readings += 1
        return ReadingId(self._n_readings)

    def site(self) -> SiteId:
        """Return the call site of the program's innermost frame."""
        frame: FrameType | None = frame_at(1)
        while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
            frame = frame.f_back
        return self.sites.near(frame, self.backward_site)

    # -- torch's callbacks

    @contextmanager
    def suppressed(self) -> Iterator[None]:
        """Ignore the callbacks of a block: what it does is known already."""
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
        """The operators of the calling thread are seen from now on."""
        self._local.is_entered = True

    @property
    def sees_thread(self) -> bool:
        """Return whether the operators of the calling thread are seen, with all that they wait for.

        Those of the autograd engine's threads are: the engine hands on the modes of the thread that called it.
        """
        return self._local.is_entered or current_node() is not None

    # -- trouble

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Stop checking if a block fails, and let the program run on."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  the border to the user's program
            self.disable_after_error(error)

    def report_failure(self, what: str, error: BaseException) -> None:
        """An operator could not be logged: say so, and stop only if it goes on like this."""
        self._n_failures += 1
        if self._n_failures > _MAX_FAILURES:
            self.disable_after_error(error)
        else:
            self.call_buffer.monitor.incomplete(f"{what} could not be logged: {type(error).__name__}: {error}")

    def disable_after_error(self, error: BaseException) -> None:
        """Syncheck itself failed: stop checking, and let the program run on."""
        self.set_checking(value=False)
        self.call_buffer.monitor.incomplete(stopped_by(error))

    def become_child(self) -> None:
        """This process is a forked child: it cannot use CUDA, and is left alone."""
        self.set_checking(value=False)
        self.call_buffer.calls.clear()  # a thread that does not exist here may have held the lock
