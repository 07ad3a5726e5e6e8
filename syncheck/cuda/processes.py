"""Processes that the program starts: forked ones cannot use CUDA, spawned ones are not checked."""

import os
from functools import wraps
from multiprocessing import process, spawn
from typing import TYPE_CHECKING, Any

from torch.utils._python_dispatch import _get_current_dispatch_mode_stack, _pop_mode
from torch.utils.data import _utils

from syncheck.capture.children import install_children
from syncheck.capture.patching import Patches
from syncheck.cuda.mode import WatchMode

if TYPE_CHECKING:
    from syncheck.cuda.backend import Cuda

NOT_CHECKED = "a spawned process was not checked"
_watching: list["Cuda"] = []
_is_registered: list[bool] = []


def install_processes(cuda: "Cuda", patches: Patches) -> None:
    """Follow forks and spawns."""
    if not _is_registered:
        os.register_at_fork(after_in_child=_release_child)
        _is_registered.append(True)
    _watching[:] = [cuda]
    patches.finally_do(_watching.clear)
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
        is_loader = any(getattr(child, "_target", None) is _utils.worker._worker_loop for child in starting)  # noqa: SLF001  what DataLoader starts
        if not is_loader and cuda.is_checking:
            cuda.monitor.incomplete(NOT_CHECKED)
        return prepare(name)

    patches.set(process.BaseProcess, "start", start_noted)
    patches.set(spawn, "get_preparation_data", prepare_child)
    install_children(patches, lambda reason: cuda.monitor.incomplete(reason) if cuda.is_checking else None)


def _release_child() -> None:
    for cuda in _watching:
        if cuda.is_checking:
            cuda.become_child()
            while any(type(mode) is WatchMode for mode in _get_current_dispatch_mode_stack()):
                _pop_mode()
