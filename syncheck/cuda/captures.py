"""The graph captures in progress, and what they do not allow."""

import gc
from collections.abc import Callable
from threading import get_ident

from syncheck.cuda.reporter import Reporter


class Captures:
    """The captures in progress, by the threads that began them.

    Attributes:
        on_change: called when one has begun or ended.
    """

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._threads: list[int] = []
        self._is_holding_garbage = False
        self.on_change: list[Callable[[], None]] = []

    def __bool__(self) -> bool:
        return bool(self._threads)

    def begin(self) -> None:
        """The calling thread began a capture."""
        self._threads.append(get_ident())
        self._notify()

    def end(self) -> None:
        """A capture ended, that of the calling thread if it began one."""
        self._threads.remove(get_ident()) if self.is_mine() else self._threads.pop()
        self._notify()

    def hold_garbage(self) -> None:
        """Keep Python from collecting garbage on its own, until no capture is left.

        Pinned memory that is freed during a capture of a stream that has used it leaves an event in torch's allocator
        that cannot be queried, and the next call that pins memory fails ("invalid argument"). A check allocates objects
        of its own, so that a collection could begin during a capture that has none without the check.

        Source:
            aten/src/ATen/core/CachingHostAllocator.h, `free` and `process_events`; seen on an H200, without syncheck.
            PyTorch PR 161037 has another error that a collection makes in a capture.
        """
        if gc.isenabled():
            gc.disable()
            self._is_holding_garbage = True

    def release_garbage(self) -> None:
        """Let Python collect garbage again, where torch has ended all captures."""
        if self._is_holding_garbage and not self._threads:
            self._is_holding_garbage = False
            gc.enable()

    def forget(self) -> None:
        """The check ends: no capture is followed any more."""
        self._threads.clear()
        self.release_garbage()

    def _notify(self) -> None:
        for act in self.on_change:
            act()

    def is_mine(self) -> bool:
        """Return whether the calling thread began a capture."""
        return get_ident() in self._threads

    def refuse(self, call: str) -> None:
        """Report a call that CUDA refuses during a capture."""
        with self._reporter.locked_monitor() as monitor:
            monitor.sync_in_capture(call, self._reporter.site())
