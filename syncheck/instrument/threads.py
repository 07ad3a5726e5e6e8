"""The program's threads: each enters the dispatch mode, acts as a host, and records what was current at its start."""

import _thread
import threading
from functools import wraps
from typing import Any, Protocol

from syncheck.hb.ids import StreamId
from syncheck.instrument.hosts import Hosts
from syncheck.instrument.modes import pushed_mode
from syncheck.instrument.patching import Patches
from syncheck.instrument.thread_order import install_thread_order
from syncheck.semantics.threads import ThreadState


class Watcher(Protocol):
    """The part of a backend that concerns threads."""

    is_checking: bool
    enters_threads: bool

    def thread_state(self) -> ThreadState:
        """Return the calling thread's state, with its device and streams up to date."""
        ...

    def new_mode(self) -> Any:
        """Return a dispatch mode to enter."""
        ...


def install_threads(watcher: Watcher, hosts: Hosts, patches: Patches) -> None:
    """Enter the mode in each new thread, store what was current at its start, and track the order of threads."""
    threads = _Threads(watcher, hosts)
    cls: Any = threading.Thread  # a thread begins in `_bootstrap_inner`, whatever its `run` is
    patches.set(cls, "start", threads.wrap_start(cls.start))
    patches.set(cls, "join", threads.wrap_join(cls.join))
    patches.set(cls, "_bootstrap_inner", threads.wrap_run(cls._bootstrap_inner))
    patches.set(_thread, "start_new_thread", threads.wrap_start_new(_thread.start_new_thread))
    install_thread_order(hosts, lambda: watcher.is_checking, patches)


class _Threads:
    """Creates the replacements of methods of threads."""

    def __init__(self, watcher: Watcher, hosts: Hosts) -> None:
        self._watcher = watcher
        self._hosts = hosts
        self._starters: dict[int, tuple[int, dict[int, StreamId]]] = {}

    @property
    def _enters(self) -> bool:
        """Whether new threads enter the mode."""
        return self._watcher.is_checking and self._watcher.enters_threads

    def wrap_start(self, start: Any) -> Any:
        """Return the replacement of `start`."""

        @wraps(start)
        def start_watched(thread: threading.Thread) -> None:
            if self._enters:
                state = self._watcher.thread_state()
                self._starters[id(thread)] = (state.device, dict(state.streams))
                self._hosts.start(thread)
            start(thread)

        return start_watched

    def wrap_run(self, run: Any) -> Any:
        """Return the replacement of the first method that a thread runs."""

        @wraps(run)
        def run_watched(thread: threading.Thread) -> None:
            starter = self._starters.pop(id(thread), None)
            if not self._enters:
                run(thread)
                return
            if starter is not None:
                self._watcher.thread_state().inherited = starter
                self._hosts.begin(thread)
            try:
                with pushed_mode(self._watcher.new_mode()):
                    run(thread)
            finally:
                if self._watcher.is_checking:
                    self._hosts.end(thread)

        return run_watched

    def wrap_start_new(self, start: Any) -> Any:
        """Return the replacement of `_thread.start_new_thread`, whose threads `threading` does not know."""

        def start_new_thread(function: Any, args: Any, *kwargs: Any) -> Any:
            return start(self._entering(function) if callable(function) else function, args, *kwargs)

        return start_new_thread

    def _entering(self, function: Any) -> Any:
        """Return a function that enters the mode before it calls another one."""

        def entered(*args: Any, **kwargs: Any) -> Any:
            if not self._enters:
                return function(*args, **kwargs)
            with pushed_mode(self._watcher.new_mode()):
                return function(*args, **kwargs)

        return entered

    def wrap_join(self, join: Any) -> Any:
        """Return the replacement of `join`."""

        @wraps(join)
        def join_watched(thread: threading.Thread, timeout: float | None = None) -> None:
            join(thread, timeout)
            if self._watcher.is_checking and not thread.is_alive():
                self._hosts.joined(thread)

        return join_watched
