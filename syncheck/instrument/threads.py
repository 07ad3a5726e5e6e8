"""Threads of the program: each enters the dispatch mode, and remembers what was current where it was started."""

import threading
from functools import wraps
from typing import Any, Protocol

from syncheck.hb.ids import StreamId
from syncheck.instrument.patching import Patches
from syncheck.semantics.threads import ThreadState


class Watcher(Protocol):
    """A backend, as far as threads concern it."""

    is_checking: bool

    def thread_state(self) -> ThreadState:
        """Return the calling thread's state, its device and streams up to date."""
        ...

    def new_mode(self) -> Any:
        """Return a dispatch mode to enter."""
        ...


def install_threads(watcher: Watcher, patches: Patches) -> None:
    """Enter the mode in each new thread; remember what was current where the thread was started."""
    start, run = threading.Thread.start, threading.Thread._bootstrap_inner  # type: ignore[attr-defined]  # noqa: SLF001  where a thread begins, whatever `run` is
    starters: dict[int, tuple[int, dict[int, StreamId]]] = {}

    @wraps(start)
    def start_watched(self: threading.Thread) -> None:
        if watcher.is_checking:
            state = watcher.thread_state()
            starters[id(self)] = (state.device, dict(state.streams))
        start(self)

    @wraps(run)
    def run_watched(self: threading.Thread) -> None:
        starter = starters.pop(id(self), None)
        if not watcher.is_checking:
            run(self)
            return
        if starter is not None:
            watcher.thread_state().inherited = starter
        mode = watcher.new_mode()
        mode.__enter__()
        try:
            run(self)
        finally:
            mode.__exit__(None, None, None)

    patches.set(threading.Thread, "start", start_watched)
    patches.set(threading.Thread, "_bootstrap_inner", run_watched)
