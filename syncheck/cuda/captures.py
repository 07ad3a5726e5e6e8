"""The graph captures in progress, and the calls that they forbid."""

import gc
from collections.abc import Callable
from threading import get_ident

from syncheck.cuda.reporter import Reporter


class Captures:
    """The captures in progress, by the threads that began them.

    Attributes:
        on_change: called when a capture has begun or ended.
    """

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._threads: list[int] = []
        self._is_holding_garbage = False
        self.on_change: list[Callable[[], None]] = []

    def __bool__(self) -> bool:
        return bool(self._threads)

    def begin(self) -> None:
        """Note that the calling thread began a capture."""
        self._threads.append(get_ident())
        self._notify()

    def end(self) -> None:
        """Note the end of a capture: the calling thread's if it began one, else the latest."""
        self._threads.remove(get_ident()) if self.is_in_this_thread() else self._threads.pop()
        self._notify()

    def hold_garbage(self) -> None:
        """Disable Python's garbage collection until no capture is in progress.

        Freeing pinned memory during a capture of a stream that has used it leaves an event in torch's allocator that
        cannot be queried, and the next call that pins memory fails ("invalid argument"). A check allocates objects of
        its own, which could trigger a collection during a capture that would have none without the check.

        Source:
            aten/src/ATen/core/CachingHostAllocator.h, `free` and `process_events`; seen on an H200, without syncheck.
            PyTorch PR 161037 describes another error that a collection causes in a capture.
        """
        if gc.isenabled():
            gc.disable()
            self._is_holding_garbage = True

    def release_garbage(self) -> None:
        """Enable garbage collection again once torch has ended all captures."""
        if self._is_holding_garbage and not self._threads:
            self._is_holding_garbage = False
            gc.enable()

    def forget(self) -> None:
        """Drop all captures at the end of the check."""
        self._threads.clear()
        self.release_garbage()

    def _notify(self) -> None:
        for act in self.on_change:
            act()

    def is_in_this_thread(self) -> bool:
        """Return whether the calling thread began a capture."""
        return get_ident() in self._threads

    def report_forbidden(self, call: str) -> None:
        """Report a call that CUDA rejects during a capture."""
        with self._reporter.locked_monitor() as monitor:
            monitor.sync_in_capture(call, self._reporter.site())
