"""Processes that the program starts: forked ones are left alone, spawned ones see virtual GPUs and are not checked."""

import os
from functools import wraps
from multiprocessing import process, spawn
from typing import Any

from torch.utils.data import _utils

from syncheck.capture.children import install_children
from syncheck.capture.patching import Patches
from syncheck.sim.simulator import Simulator
from syncheck.sim.wish import Wish

NOT_CHECKED = "a spawned process was not checked"
_forked_simulators: list[Simulator] = []


def install_processes(simulator: Simulator, patches: Patches) -> None:
    """Follow forks and spawns."""
    if not _forked_simulators:
        os.register_at_fork(after_in_child=_release_child)
    _forked_simulators[:] = [simulator]
    _install_spawn(simulator, patches)

    def incomplete(reason: str) -> None:
        simulator.machine.monitor.incomplete(reason)  # the one of now: a forked child's is silent

    install_children(patches, incomplete)


def _release_child() -> None:
    from torch.utils._python_dispatch import (  # noqa: PLC0415  torch has no public name for them
        _get_current_dispatch_mode_stack,
        _pop_mode,
    )

    for simulator in _forked_simulators:
        if simulator.is_checking:
            simulator.become_child()
            while any(type(mode) is simulator.mode_class for mode in _get_current_dispatch_mode_stack()):
                _pop_mode()


def _install_spawn(simulator: Simulator, patches: Patches) -> None:
    """Send the wish for virtual GPUs along with what a spawned child gets; workers of a DataLoader have no use for it.

    Source:
        multiprocessing/popen_spawn_posix.py and popen_forkserver.py, `_launch`; spawn.py: the child unpickles the
        preparation data before it imports the program, and ignores what it does not know.
    """
    prepare, start = spawn.get_preparation_data, process.BaseProcess.start
    starting: list[Any] = []

    @wraps(start)
    def start_noted(self: Any) -> None:
        starting.append(self)
        try:
            start(self)
        finally:
            starting.remove(self)

    @wraps(prepare)
    def prepare_child(name: str) -> dict[str, Any]:
        data = prepare(name)
        if not any(_is_loader(child) for child in starting):
            simulator.machine.monitor.incomplete(NOT_CHECKED)
            data["syncheck"] = Wish(len(simulator.machine.devices))
        return data

    patches.set(process.BaseProcess, "start", start_noted)
    patches.set(spawn, "get_preparation_data", prepare_child)


def _is_loader(child: Any) -> bool:
    return getattr(child, "_target", None) is _utils.worker._worker_loop  # noqa: SLF001  what DataLoader starts
