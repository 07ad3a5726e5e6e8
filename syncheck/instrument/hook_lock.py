"""The lock that guards the checker's state."""

import gc
import threading


class HookLock:
    """A reentrant lock. While it is held, no garbage is collected.

    A garbage collection calls finalizers of the program, which may block until another thread has made a call that
    needs the lock: that of a `DataLoader` iterator waits for the thread that pins memory. It could also make calls to
    the checker in the middle of another one.
    """

    __slots__ = ("_acquire", "_depth", "_is_holding_garbage", "_release")

    def __init__(self) -> None:
        lock = threading.RLock()
        self._acquire, self._release = lock.acquire, lock.release
        self._depth = 0
        self._is_holding_garbage = False

    def __enter__(self) -> None:
        self._acquire()
        self._depth += 1
        if self._depth == 1 and gc.isenabled():
            gc.disable()
            self._is_holding_garbage = True

    def __exit__(self, *error: object) -> None:
        self._depth -= 1
        if not self._depth:
            self.release_garbage()
        self._release()

    def release_garbage(self) -> None:
        """Collect garbage again, as in a forked child, where the thread that held the lock may not exist."""
        if self._is_holding_garbage:
            self._is_holding_garbage = False
            gc.enable()
