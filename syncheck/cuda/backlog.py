"""What happened and the monitor has not been told yet."""

from collections import deque
from collections.abc import Callable
from typing import Any

from syncheck.sanitizer.monitor import Monitor

_ENOUGH = 128
"""This many calls are told at once: in a row they cost half of what they cost one by one, between the operators."""


class Backlog:
    """Calls of the monitor that nobody waits for, in their order: they complete no finding.

    A call is added without a lock, at any moment and from any thread: also while the monitor works.

    Args:
        monitor: is told.
        failed: is told what the monitor could not take, and its error.
    """

    def __init__(self, monitor: Monitor, failed: Callable[[str, Exception], None]) -> None:
        self.monitor = monitor
        self.calls: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._failed = failed

    def allocate(self, allocation: int, home: int, n_bytes: int, pool: int, site: int) -> None:
        """See `Monitor`."""
        self.calls.append((self.monitor.allocate, (allocation, home, n_bytes, pool, site)))

    def launch(self, stream: int, operator: str, accesses: list[tuple[int, int, bool]], site: int) -> bool:
        """See `Monitor`; tell whether so much happened that the monitor should be told."""
        self.calls.append((self.monitor.launch, (stream, operator, accesses, site, 0)))
        return len(self.calls) >= _ENOUGH

    def free(self, allocation: int, site: int) -> None:
        """See `Monitor`."""
        self.calls.append((self.monitor.free, (allocation, site)))

    def tell(self) -> None:
        """Make the calls; the caller holds the lock of the monitor."""
        calls = self.calls
        while calls:
            call, arguments = calls.popleft()
            try:
                call(*arguments)
            except Exception as error:  # noqa: BLE001  the border to the user's program
                operator = next((argument for argument in arguments if isinstance(argument, str)), "memory")
                self._failed(operator, error)
