"""The end of a program as python performs it: threads, `atexit`, the standard streams.

Source:
    CPython 3.11 to 3.13: `Python/pylifecycle.c`; the functions are named in brackets.
"""
# The end of the threads and of atexit has no public name:
# ruff: noqa: SLF001

import atexit
import os
import sys
import threading
from contextlib import suppress
from typing import Any

from .exceptions import attempt, raised_by
from .state import in_main_thread

_FLUSH_FAILED = 120  # [Py_RunMain]
_EXECUTORS = {"concurrent.futures.thread": "_shutdown", "concurrent.futures.process": "_global_shutdown"}
_threading: Any = threading


def finish() -> int | None:
    """Wait for the threads, run the `atexit` callbacks, flush the streams [Py_FinalizeEx].

    Everything registered with `atexit` in this process is run and forgotten, also what was registered before
    the program: `atexit` does not distinguish them. Outside the main thread no thread is waited for.

    Returns:
        The exit status that replaces the program's own; None where nothing went wrong.
    """
    if in_main_thread():
        attempt(_threading._shutdown, threading, "on threading shutdown")
    attempt(atexit._run_exitfuncs, atexit, "in atexit")
    return None if _flush_streams() else _FLUSH_FAILED


def revive_threads() -> None:
    """Let this process have threads and executors again, and end them once more with the process."""
    if not in_main_thread():
        return
    _threading._SHUTTING_DOWN = False
    _threading._threading_atexits.clear()
    if not threading.main_thread().is_alive():
        _threading._main_thread = _threading._MainThread()
    for name, flag in _EXECUTORS.items():
        executors: Any = sys.modules.get(name)
        if executors is not None:
            setattr(executors, flag, False)
            _threading._register_atexit(executors._python_exit)


def flush_quietly() -> None:
    """Flush the standard streams, whatever comes of it [flush_io]."""
    for stream in (sys.stderr, sys.stdout):
        with suppress(Exception):
            stream.flush()


def _flush_streams() -> bool:
    """[flush_std_files] Only a failure of stdout is shown."""
    flushed = _is_closed(sys.stdout) or attempt(sys.stdout.flush, sys.stdout, "on flushing sys.stdout")
    if not flushed:
        sys.stdout = _emptied(sys.stdout)
    if _is_closed(sys.stderr) or raised_by(sys.stderr.flush) is None:
        return flushed
    sys.stderr = _emptied(sys.stderr)
    return False


def _is_closed(stream: Any) -> bool:
    try:
        return stream is None or bool(stream.closed)
    except Exception:  # noqa: BLE001  of a detached stream, for one; then it counts as open
        return False


def _emptied(stream: Any) -> Any:
    """Send the rest to nowhere: python would fail again, and say so again, when the process ends."""
    try:
        descriptor = stream.fileno()
        null = os.open(os.devnull, os.O_WRONLY)
        if null != descriptor:  # they are equal where the program closed it
            os.dup2(null, descriptor)
            os.close(null)
        stream.flush()
    except Exception:  # noqa: BLE001  a stream of the program's own; None is one that python leaves alone
        return None
    return stream
