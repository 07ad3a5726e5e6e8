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
        pending: calls to be made before the next one: (name, arguments). Finalizers add to it at any time.
        deliver: makes the pending calls; the lock is held.
        before_call: called before each call, while the lock is held; None for nothing.

    Args:
        monitor: receives the calls.
        lock: a reentrant lock.
    """

    def __init__(self, monitor: Monitor, lock: AbstractContextManager[Any]) -> None:
        self.lock = lock
        self.before_call: Callable[[], None] | None = None
        self.direct = monitor
        self.pending: deque[tuple[str, tuple[Any, ...]]] = deque()
        self.deliver: Callable[[deque[tuple[str, tuple[Any, ...]]]], None] = self._deliver

    def later(self, name: str, *arguments: Any) -> None:
        """Make a call before the next one; for finalizers, which run at any time, even inside the monitor."""
        self.pending.append((name, arguments))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self.direct, name)
        lock, pending = self.lock, self.pending

        def call(*args: Any, **kwargs: Any) -> Any:
            with lock:
                if pending:
                    self.deliver(pending)
                if self.before_call is not None:
                    self.before_call()
                return method(*args, **kwargs)

        setattr(self, name, call)
        return call

    def catch_up(self) -> None:
        """Make the pending calls."""
        with self.lock:
            self.deliver(self.pending)

    def _deliver(self, calls: deque[tuple[str, tuple[Any, ...]]]) -> None:
        while calls:
            name, arguments = calls.popleft()
            getattr(self.direct, name)(*arguments)
