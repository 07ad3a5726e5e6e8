"""Processes that the program starts: forked ones cannot use CUDA, and are left alone."""

import os
from typing import TYPE_CHECKING

from torch.utils._python_dispatch import _get_current_dispatch_mode_stack, _pop_mode

from syncheck.cuda.mode import WatchMode
from syncheck.instrument.children import install_children
from syncheck.instrument.patching import Patches

if TYPE_CHECKING:
    from syncheck.cuda.backend import Cuda

_watching: list["Cuda"] = []
_is_registered: list[bool] = []


def install_processes(cuda: "Cuda", patches: Patches) -> None:
    """Follow forks and spawns."""
    if not _is_registered:
        os.register_at_fork(after_in_child=_release_child)
        _is_registered.append(True)
    _watching[:] = [cuda]
    patches.finally_do(_watching.clear)

    def incomplete(reason: str) -> None:
        if cuda.is_checking:
            cuda.monitor.incomplete(reason)

    install_children(patches, incomplete, lambda: None)


def _release_child() -> None:
    for cuda in _watching:
        if cuda.is_checking:
            cuda.become_child()
            while any(type(mode) is WatchMode for mode in _get_current_dispatch_mode_stack()):
                _pop_mode()
