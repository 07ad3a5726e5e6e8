"""Ends a job that hangs, with a report, even if the main thread is stuck in native code.

A thread monitors the main thread, which cannot handle signals while it waits inside C++. A rank whose collective
exceeds the user's timeout leaves a mark in the job's folder; all ranks that see the mark record their position, and
end. If native code holds the GIL, `faulthandler`, which does not need it, records the stack, and another rank kills the
process.

Source:
    Python library reference: `signal.set_wakeup_fd`, `faulthandler.dump_traceback_later`.
"""

import contextlib
import faulthandler
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import NoReturn

from syncheck import serialization
from syncheck.findings import Location
from syncheck.ranks import writer
from syncheck.source.frames import frames_of_threads
from syncheck.system import processes
from syncheck.system.descriptors import Descriptor, moved_up

MARK = "hang"
"""Name of the file that a rank creates to report to the others that the job hangs."""
PATIENCE = 30.0
"""Seconds after which a line says what this rank waits for."""
_POLL_INTERVAL = 0.5
_MAIN_THREAD_TIMEOUT = 1.0
"""Seconds that the main thread has to handle a signal itself."""
_TERMINATING = {signal.SIGTERM, signal.SIGINT}


class Watch:
    """Monitors the main thread of a rank.

    Attributes:
        timeout: seconds that a collective may take; 0 for no limit.
        pending: group -> (function that returns whether its latest collective is complete, start time).

    Args:
        timeout: seconds that a collective may take; 0 for no limit.
        location_of: converts a frame to a location.
        end: delivers the report and ends this process, given its status and the reason; does not return.
        print_line: prints a line for the user while the program runs.
    """

    def __init__(
        self,
        timeout: float,
        location_of: Callable[[FrameType | None], Location],
        end: Callable[[int, str], NoReturn],
        print_line: Callable[[str], None],
    ) -> None:
        self.pending: dict[str, tuple[Callable[[], bool], float]] = {}
        self.timeout = timeout
        self._location_of = location_of
        self._end = end
        self._print_line = print_line
        self._printed = 0.0  # start of the wait that was printed last
        self._waits: list[tuple[str, str, float]] = []
        self._main = threading.main_thread().ident or 0
        self._stack: Descriptor | None = None
        self._signals: Descriptor | None = None

    def start(self) -> None:
        """Start monitoring; signals are handled only if this is the main thread."""
        # Windows cannot wait for a pipe with a timeout
        if threading.current_thread() is threading.main_thread() and sys.platform != "win32":
            reading, writing = os.pipe()
            os.set_blocking(writing, False)
            self._signals, writing = Descriptor(reading), moved_up(writing)
            before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
            if before != -1:  # another handler is installed
                signal.set_wakeup_fd(before)
        threading.Thread(target=self._monitor, name="syncheck-watch", daemon=True).start()

    @contextlib.contextmanager
    def waits(self, what: str, group: str) -> Iterator[None]:
        """Note that the calling thread waits for other ranks for the duration of a block."""
        entry = (what, group, time.monotonic())
        self._waits.append(entry)
        try:
            yield
        finally:
            self._waits.remove(entry)

    # -- the thread

    def _monitor(self) -> None:
        while True:
            self.poll()

    def poll(self) -> None:
        """Handle what has happened, after waiting half a second for signals."""
        self.arm()
        for number in self._received():
            self._answer(number)
        if self.timeout and self._is_marked():
            self._give_up(1, "the job hangs")
        stuck = self._stuck()
        if stuck is None:
            return
        what, _, since = stuck
        if time.monotonic() - since > self.timeout > 0:
            self._mark_hang()
            self._give_up(1, f"the job hangs: {what} took more than {self.timeout:g} seconds")
        if self._waits and time.monotonic() - since > PATIENCE and since != self._printed:
            self._printed = since
            self._print_wait(what)

    def _print_wait(self, what: str) -> None:
        recorder = writer.current()
        who = f"rank {recorder.process.rank}" if recorder is not None and recorder.process.rank >= 0 else "this rank"
        frame = self._location_of(frames_of_threads().get(self._main)).frame
        advice = "" if self.timeout else "; --hang-timeout ends a job that hangs"
        self._print_line(f"{who} has waited {PATIENCE:g} s for others: {what} at {frame.path}:{frame.line}{advice}")

    def _received(self) -> bytes:
        try:
            number = self._signals.fileno() if self._signals is not None else -1
        except OSError:  # the program has closed it
            self._signals = None
        if self._signals is None:
            time.sleep(_POLL_INTERVAL)
            return b""
        ready, _, _ = select.select([number], [], [], _POLL_INTERVAL)
        return os.read(number, 64) if ready else b""

    def _answer(self, number: int) -> None:
        """Handle a signal in place of the main thread if that is stuck."""
        if number not in _TERMINATING:
            return
        before = self._position()
        time.sleep(_MAIN_THREAD_TIMEOUT)
        if self._position() == before and self._stuck() is not None:
            self._give_up(128 + number, "")

    def _position(self) -> tuple[int, int]:
        frame = frames_of_threads().get(self._main)
        return (id(frame), frame.f_lasti) if frame is not None else (0, 0)

    def _stuck(self) -> tuple[str, str, float] | None:
        """Return what this rank waits for, the group, and since when; None if it does not wait."""
        if self._waits:
            return self._waits[0]
        for group, (is_complete, since) in sorted(self.pending.items(), key=lambda item: item[1][1]):
            if not is_complete():
                return "a collective", group, since
            if self.pending.get(group, (None, 0.0))[1] == since:
                self.pending.pop(group, None)
        return None

    def _is_marked(self) -> bool:
        recorder = writer.current()
        return recorder is not None and (recorder.folder / MARK).exists()

    def _mark_hang(self) -> None:
        recorder = writer.current()
        if recorder is not None:
            with contextlib.suppress(OSError):
                (recorder.folder / MARK).touch()

    def _give_up(self, status: int, reason: str) -> NoReturn:
        stuck = self._stuck()
        frame = frames_of_threads().get(self._main)
        recorder = writer.current()
        if recorder is not None:
            location = serialization.of_location(self._location_of(frame))
            recorder.record("hung", {"group": stuck and stuck[1], "what": stuck and stuck[0], "place": location})
        self._end(status, reason)

    def arm(self) -> None:
        """Make faulthandler record the stacks if this thread cannot run for most of the timeout of a collective."""
        recorder = writer.current()
        if not self.timeout or recorder is None:
            return
        with contextlib.suppress(OSError):
            if self._stack is None:
                self._stack = Descriptor.of_file(recorder.folder / f"{recorder.name}.stack")
            faulthandler.dump_traceback_later(0.8 * self.timeout, file=self._stack.fileno())


active: Watch | None = None
"""The watch of this process, if it is a rank."""


def begin(
    timeout: float,
    location_of: Callable[[FrameType | None], Location],
    end: Callable[[int, str], NoReturn],
    print_line: Callable[[str], None],
) -> None:
    """Monitor this process from now on; see `Watch`."""
    global active  # noqa: PLW0603  one per process
    if active is None:
        active = Watch(timeout, location_of, end, print_line)
        active.start()
        processes.after_fork_in_child(_reset_in_child)


def _reset_in_child() -> None:
    """Stop monitoring in a forked child; the parent's thread does not handle the child's signals."""
    global active  # noqa: PLW0603  one per process
    if active is not None:
        active = None
        with contextlib.suppress(ValueError):  # forked by another thread, which becomes the main thread only later
            signal.set_wakeup_fd(-1)


def arm() -> None:
    """Arm the stack dump again, now that there is a folder to write to."""
    if active is not None:
        active.arm()


def waiting(what: str, group: str = "") -> contextlib.AbstractContextManager[None]:
    """Return a context in which the calling thread waits for other ranks."""
    return active.waits(what, group) if active is not None else contextlib.nullcontext()


def is_monitored(group: str) -> bool:
    """Return whether the collectives of a group are to be monitored."""
    return active is not None and active.timeout > 0 and bool(group)


def started(group: str, is_complete: Callable[[], bool]) -> None:
    """Note the start of a collective that may not end."""
    if active is not None:
        active.pending[group] = (is_complete, time.monotonic())
