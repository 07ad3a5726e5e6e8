"""A thread that calls a function in the main thread from time to time, at safe points."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SOON, _LESS_SOON = 0.001, 0.03
"""Seconds until the next attempt after an unsafe point; they double from the first value up to the second."""
_LEAVE = 1.0
"""Seconds to wait for the thread at the end; its callback may be blocked on a lock of the program."""


class Ticker:
    """Calls a function in the main thread repeatedly, at intervals that the function chooses.

    Args:
        tick: called in the main thread; returns the seconds until the next call, or None for never.
        is_safe: returns whether `tick` may be called while the main thread is in a given frame.
        after: called in the ticker's own thread after each call of `tick`.
        schedule: makes the main thread call a function between two bytecodes; returns whether it will.
    """

    def __init__(
        self,
        tick: Callable[[], float | None],
        is_safe: Callable[[FrameType], bool],
        after: Callable[[], None],
        schedule: Callable[[Callable[[FrameType], None]], bool],
    ) -> None:
        self._tick = tick
        self._is_safe = is_safe
        self._after = after
        self._schedule = schedule
        self._wake = threading.Event()
        self._is_over = False
        self._retry = _SOON
        self._pause: float | None = None

    @contextmanager
    def running(self, first: float) -> Iterator[None]:
        """Make the calls during a block, the first one after `first` seconds."""
        self._pause = first
        process = os.getpid()
        thread = threading.Thread(target=self._run, name="syncheck-budget", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._is_over = True
            self._wake.set()
            if os.getpid() == process:  # a forked child has no such thread
                thread.join(_LEAVE)

    def _run(self) -> None:
        while self._pause is not None and not self._wake.wait(self._pause):
            if not self._schedule(self._in_main_thread):
                continue
            self._wake.wait()  # blocks while the main thread is in a non-Python call
            if self._is_over:
                return
            self._wake.clear()
            self._after()

    def _in_main_thread(self, frame: FrameType) -> None:
        if self._is_over:
            return
        try:
            if self._is_safe(frame):
                self._retry = _SOON
                self._pause = self._tick()
            else:
                self._pause = self._retry
                self._retry = min(2 * self._retry, _LESS_SOON)
        finally:
            self._wake.set()
