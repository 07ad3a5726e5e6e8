"""A thread-safe monitor: serializes its calls."""

from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from syncheck.sanitizer.monitor import Monitor


class LockedMonitor:
    """Forwards each call while holding a lock.

    Attributes:
        direct: the monitor itself; its callers must hold the lock.
        lock: held during each call; callers may also hold it around several calls that belong together.
        before_call: called before each call, while the lock is held; None for nothing.

    Args:
        monitor: receives the calls.
        lock: a reentrant lock.
    """

    def __init__(self, monitor: Monitor, lock: AbstractContextManager[Any]) -> None:
        self.lock = lock
        self.before_call: Callable[[], None] | None = None
        self.direct = monitor
        self._later: deque[tuple[str, tuple[Any, ...]]] = deque()

    def later(self, name: str, *arguments: Any) -> None:
        """Make a call before the next one; for finalizers, which run at any time, even inside the monitor."""
        self._later.append((name, arguments))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self.direct, name)
        lock, later = self.lock, self._later

        def call(*args: Any, **kwargs: Any) -> Any:
            with lock:
                if later:
                    self._catch_up()
                if self.before_call is not None:
                    self.before_call()
                return method(*args, **kwargs)

        setattr(self, name, call)
        return call

    def _catch_up(self) -> None:
        while self._later:
            name, arguments = self._later.popleft()
            getattr(self.direct, name)(*arguments)
