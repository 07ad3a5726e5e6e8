"""Shutdown of a program, as performed by python: threads, `atexit`, the standard streams.

Source:
    CPython 3.11 to 3.13: `Python/pylifecycle.c`; the functions are named in brackets.
"""
# The functions that shut down threading and atexit are private:
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
_FLUSHING = "while flushing" if sys.version_info >= (3, 14) else "on flushing"
"""How python names the occasion [flush_std_files]."""


def finish() -> int | None:
    """Wait for the threads, run the `atexit` callbacks, and flush the streams [Py_FinalizeEx].

    All `atexit` callbacks of this process are run and removed, including those registered before the program, because
    `atexit` does not distinguish them. Outside the main thread, no threads are waited for.

    Returns:
        The exit status that replaces the program's own; None if nothing went wrong.
    """
    if in_main_thread():
        attempt(_threading._shutdown, threading, "on threading shutdown")
    attempt(atexit._run_exitfuncs, atexit, "in atexit")
    return None if _flush_streams() else _FLUSH_FAILED


def revive_threads() -> None:
    """Allow threads and executors in this process again, and register their shutdown at process exit."""
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
    """Flush the standard streams, ignoring errors [flush_io]."""
    for stream in (sys.stderr, sys.stdout):
        with suppress(Exception):
            stream.flush()


def _flush_streams() -> bool:
    """Flush the standard streams, showing only a failure of stdout [flush_std_files]."""
    flushed = _is_closed(sys.stdout) or attempt(sys.stdout.flush, sys.stdout, f"{_FLUSHING} sys.stdout")
    if not flushed:
        sys.stdout = _emptied(sys.stdout)
    if _is_closed(sys.stderr) or raised_by(sys.stderr.flush) is None:
        return flushed
    sys.stderr = _emptied(sys.stderr)
    return False


def _is_closed(stream: Any) -> bool:
    try:
        return stream is None or bool(stream.closed)
    except Exception:  # noqa: BLE001  for example of a detached stream, which counts as open
        return False


def _emptied(stream: Any) -> Any:
    """Redirect remaining output to the null device, so that python does not fail again at process exit."""
    try:
        descriptor = stream.fileno()
        null = os.open(os.devnull, os.O_WRONLY)
        if null != descriptor:  # equal if the program closed the stream's descriptor
            os.dup2(null, descriptor)
            os.close(null)
        stream.flush()
    except Exception:  # noqa: BLE001  a custom stream of the program; python ignores a stream that is None
        return None
    return stream
