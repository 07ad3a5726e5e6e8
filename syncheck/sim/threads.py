"""Threads of the program: each enters the dispatch mode, which is per thread."""

import threading
from functools import wraps

from syncheck.sim.machine import ThreadState
from syncheck.sim.patching import Patches
from syncheck.sim.simulator import Simulator


def install_threads(simulator: Simulator, patches: Patches) -> None:
    """Enter the mode in each new thread; remember what was current where the thread was started."""
    start, run = threading.Thread.start, threading.Thread._bootstrap_inner  # type: ignore[attr-defined]  # noqa: SLF001  where a thread begins, whatever `run` is
    starters: dict[int, ThreadState] = {}

    @wraps(start)
    def start_watched(self: threading.Thread) -> None:
        state = simulator.machine.thread
        starters[id(self)] = ThreadState(device=state.device, streams=dict(state.streams))
        start(self)

    @wraps(run)
    def run_watched(self: threading.Thread) -> None:
        starter = starters.pop(id(self), None)
        if not simulator.is_checking:
            run(self)
            return
        if starter is not None:
            simulator.machine.thread.inherited = (starter.device, starter.streams)
        mode = simulator.mode_class(simulator)
        mode.__enter__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        try:
            run(self)
        finally:
            mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]  # torch leaves it untyped

    patches.set(threading.Thread, "start", start_watched)
    patches.set(threading.Thread, "_bootstrap_inner", run_watched)
