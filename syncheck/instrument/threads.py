"""Threads of the program: what is current in each, what a new one loses, and the dispatch mode that each one enters."""

import threading
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Protocol

from syncheck.instrument.patching import Patches
from syncheck.sanitizer.monitor import Monitor


@dataclass(slots=True)
class ThreadState:
    r"""What is current in one Python thread.

    Attributes:
            device: the current device.
            streams: device -> current stream, where it is not the default one.
            contexts: (stream, call site) of the entered `torch.cuda.stream` blocks, innermost last.
            implicit_device: an index was left out, so that the current device decided.
    \        set_explicitly: the thread has set a device or a stream itself.
    \        expected_stream: the starter's stream that this thread should have made current and did not; 0 if none.
            inherited: (device, its current stream) of the thread that started this one; None once looked at.
            pools: device -> the memory pool in use, where it is not the allocator's own.
    """

    device: int = 0
    streams: dict[int, int] = field(default_factory=dict)
    contexts: list[tuple[int, int]] = field(default_factory=list)
    implicit_device: bool = False
    set_explicitly: bool = False
    inherited: tuple[int, dict[int, int]] | None = None
    expected_stream: int = 0
    pools: dict[int, int] = field(default_factory=dict)


class StreamTable(Protocol):
    """Knows all streams."""

    def device_of(self, stream: int) -> int:
        """Return a stream's device."""
        ...

    def handle_of(self, stream: int) -> int:
        """Return a stream's handle; 0 is a default stream."""
        ...

    def default_stream(self, device: int) -> int:
        """Return a device's default stream."""
        ...


def mismatch(state: ThreadState, device: int, other: int, table: StreamTable) -> int:
    """Return the innermost entered context if none of the entered ones is for these devices, encoded; else 0.

    In a thread that lost its starter's stream: that stream, negative. The code is that of `Monitor.launch`.
    """
    if state.expected_stream:
        return -state.expected_stream
    if not state.contexts or any(table.device_of(stream) in {device, other} for stream, _ in state.contexts):
        return 0
    stream, site = state.contexts[-1]
    return site * 4096 + stream if table.handle_of(stream) else 0


def check_inherited(state: ThreadState, stream: int, site: int, table: StreamTable, monitor: Monitor) -> None:
    """On a thread's first op, given to `stream`: report that it lost its starter's device or stream."""
    inherited, state.inherited = state.inherited, None
    if inherited is None or state.set_explicitly:
        return
    device, streams = inherited
    own = table.device_of(stream)
    if device != own and state.implicit_device:
        expected = streams.get(device, table.default_stream(device))
    elif streams.get(own, stream) != stream:
        expected = streams[own]
    else:
        return
    state.expected_stream = expected
    monitor.lost_context(stream, expected, site)


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
    starters: dict[int, tuple[int, dict[int, int]]] = {}

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
