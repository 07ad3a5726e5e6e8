"""Interpreter state that a program changes, and its restoration."""

import _signal  # type: ignore[import-not-found]  # not in typeshed; `signal` hides what a handler is
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_UNCHANGEABLE = {getattr(signal, name, None) for name in ("SIGKILL", "SIGSTOP")}
_SOON = 1e-3
_MAIN, _MP_MAIN = "__main__", "__mp_main__"  # multiprocessing binds the second when it is imported


def working_directory() -> str | None:
    """Return the working directory; None if it was deleted."""
    try:
        return os.getcwd()
    except OSError:
        return None


def in_main_thread() -> bool:
    """Return whether this is the main thread: only it can set signal handlers and end the other threads."""
    return threading.current_thread() is threading.main_thread()


@contextmanager
def search_path(entry: str | None) -> Iterator[None]:
    """Let `sys.path` start with `entry` instead of the entry that python added for syncheck."""
    path, saved = sys.path, sys.path.copy()
    rest = saved[1:] if saved and saved[0] == _own_entry() else saved
    path[:] = rest if entry is None else [entry, *rest]
    try:
        yield
    finally:
        sys.path = path
        path[:] = saved


@contextmanager
def restored() -> Iterator[None]:
    """Restore `sys.argv`, `__main__`, `sys.excepthook`, the working directory, timers and signal handlers on exit."""
    argv, hook = sys.argv, sys.excepthook
    mains = {name: sys.modules[name] for name in (_MAIN, _MP_MAIN) if name in sys.modules}
    folder, handlers, timers = working_directory(), _handlers(), _timers()
    try:
        yield
    finally:
        sys.argv, sys.excepthook = argv, hook
        sys.modules.pop(_MP_MAIN, None)
        sys.modules.update(mains)
        if folder is not None:
            with suppress(OSError):
                os.chdir(folder)
        _restart(timers)
        for number, handler in handlers.items():
            if _signal.getsignal(number) is not handler:
                _signal.signal(number, handler)


def _handlers() -> dict[signal.Signals, object]:
    """Return the handlers that can be restored, which excludes those installed by C code."""
    if not in_main_thread():
        return {}
    handlers = {number: _signal.getsignal(number) for number in signal.valid_signals() - _UNCHANGEABLE}
    return {number: handler for number, handler in handlers.items() if handler is not None}


def _timers() -> dict[int, tuple[float, float, float]]:
    """Return the timers that send signals: (time of the query, seconds left, interval)."""
    if sys.platform == "win32" or not in_main_thread():
        return {}
    kinds = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
    return {kind: (time.monotonic(), *signal.getitimer(kind)) for kind in kinds}


def _restart(timers: dict[int, tuple[float, float, float]]) -> None:
    """Stop the timers that the program left behind, which would have ended with it; let earlier ones continue."""
    if sys.platform == "win32":
        return
    for kind, (queried_at, left, interval) in timers.items():
        rest = max(left - (time.monotonic() - queried_at), _SOON) if left else 0
        signal.setitimer(kind, rest, interval)


def _own_entry() -> str | None:
    """Return the entry that python put first in `sys.path` for the program that this process was started with.

    Source:
        `sys.path` in the Python library reference: the folder of the script, the working directory after -m,
        the empty string after -c, nothing with -P.
    """
    if sys.flags.safe_path:
        return None
    main = sys.modules["__main__"]
    if main.__spec__ is not None and main.__spec__.name != "__main__":
        return working_directory()
    file = getattr(main, "__file__", None)
    return "" if file is None else os.path.dirname(os.path.realpath(file))
