"""Hook for process exits that run no Python code: `os._exit`, `os.exec*`, SIGTERM and SIGHUP."""

import _signal  # type: ignore[import-not-found]  # not in typeshed; `signal` converts our handler to an int
import operator
import os
import signal
import threading
import traceback
import weakref
from collections.abc import Callable
from functools import wraps
from types import FrameType
from typing import Any, NoReturn, Self

from syncheck.system import signals
from syncheck.system.processes import after_fork_in_child

from .state import in_main_thread

_ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals that ask a process to terminate; SIGHUP is sent when the terminal or its connection is closed."""

_REPLACING = tuple(name for name in ("execv", "execve") if hasattr(os, name))
"""The functions that all other functions of `os` call to replace the program of a process.

Source:
    Lib/os.py, `execl`, `_execvpe`.
"""


class _Terminate(int):
    """A handler that equals SIG_DFL (0).

    `signal.getsignal` and `signal.signal` look up a handler among the values of `signal.Handlers`, so for this handler
    they return SIG_DFL, as they would without syncheck.
    """

    _act: Callable[[int], None]

    @classmethod
    def calling(cls, act: Callable[[int], None]) -> Self:
        """Return a handler that calls `act`."""
        handler = cls(signal.SIG_DFL)
        handler._act = act
        return handler

    def __call__(self, number: int, frame: FrameType | None) -> None:
        signals.arrive(number, frame, lambda number, _: self._act(number))


class ExitHook:
    """Context manager that calls `at_exit` once before this process ends by `os._exit` or a termination signal.

    It is also called before the process is replaced by another program, by `os.execv` and the functions that call it;
    `at_exec` is called before it, with the path and arguments of that program. `at_signal` is called before it with the
    number of a termination signal. The hook has no effect in forked children.
    """

    def __init__(
        self,
        at_exit: Callable[[int], int],
        at_exec: Callable[[Any, Any], None] | None = None,
        at_signal: Callable[[int], None] | None = None,
    ) -> None:
        self._at_exit, self._at_exec, self._at_signal = at_exit, at_exec, at_signal
        self._was_called = False
        self._is_calling = False
        self._lock = threading.RLock()  # another exiting thread waits for the report of the first one
        self._pid = os.getpid()
        self._real_exit = os._exit
        self._real_exec = {name: getattr(os, name) for name in _REPLACING}
        self._handler = _Terminate.calling(self._on_signal)

    def __enter__(self) -> Self:
        os._exit = self._wrap_exit()  # type: ignore[assignment]  # a Callable does not name its parameter
        for name, function in self._real_exec.items():
            setattr(os, name, self._wrap_exec(function))
        for number in _ENDING if in_main_thread() else ():
            if signal.getsignal(number) == signal.SIG_DFL:
                _signal.signal(number, self._handler)
        self._remove_in_children()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._remove()

    def _remove(self) -> None:
        os._exit = self._real_exit
        for name, function in self._real_exec.items():
            setattr(os, name, function)
        for number in _ENDING:
            if _signal.getsignal(number) is self._handler:
                signal.signal(number, signal.SIG_DFL)

    def _remove_in_children(self) -> None:
        """Remove the hook from forked children immediately: a signal must end them even inside a call into C."""
        remove = weakref.WeakMethod(self._remove)  # python keeps the callback forever

        def after_fork() -> None:
            alive = remove()
            if alive is not None:
                alive()

        after_fork_in_child(after_fork)

    def _wrap_exit(self) -> Callable[[int], NoReturn]:
        def _exit(status: int) -> NoReturn:
            code = operator.index(status)  # an argument that os._exit rejects ends nothing
            self._real_exit(self.call_at_exit(code))

        _exit.__module__, _exit.__qualname__ = "os", "_exit"  # so that it pickles as os._exit does
        _exit.__doc__ = self._real_exit.__doc__
        return _exit

    def _wrap_exec(self, real_exec: Callable[..., NoReturn]) -> Callable[..., NoReturn]:
        @wraps(real_exec)
        def execute(path: Any, argv: Any, *environment: Any, **named: Any) -> NoReturn:
            # `os.execvp` tries the folders of PATH in turn: a path that is not executable replaces nothing
            if isinstance(path, int) or (os.path.isfile(path) and os.access(path, os.X_OK)):
                if self._at_exec is not None and os.getpid() == self._pid:
                    self._at_exec(path, argv)
                self.call_at_exit(0)
            real_exec(path, argv, *environment, **named)

        return execute

    def _on_signal(self, number: int) -> None:
        if self._is_calling:
            return  # another signal must not interrupt the report: the process is about to end
        if self._at_signal is not None and not self._was_called and os.getpid() == self._pid:
            self._at_signal(number)
        self.call_at_exit(128 + number)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def call_at_exit(self, status: int) -> int:
        """Call `at_exit` once, uninterrupted by the program's signal handlers; return the status to exit with."""
        if os.getpid() != self._pid:
            return status
        with self._lock:
            if self._was_called:
                return status
            self._was_called = self._is_calling = True
            try:
                with signals.dropped():
                    return self._at_exit(status)
            except BaseException:  # noqa: BLE001  the process still ends, with its own status
                traceback.print_exc()
                return status
            finally:
                self._is_calling = False
