"""The graph captures in progress, and what they do not allow."""

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
