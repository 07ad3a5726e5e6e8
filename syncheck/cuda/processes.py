"""Processes that the program starts: forked ones cannot use CUDA, and are left alone."""

from functools import cache

from syncheck.cuda.mode import WatchMode
from syncheck.cuda.reporter import Reporter
from syncheck.instrument.children import install_children
from syncheck.instrument.patching import Patches
from syncheck.instrument.torch_internals import current_dispatch_modes, pop_dispatch_mode
from syncheck.system import processes

_watching: list[Reporter] = []


def install_processes(reporter: Reporter, patches: Patches) -> None:
    """Follow forks and spawns."""
    _register()
    _watching[:] = [reporter]
    patches.finally_do(_watching.clear)

    def incomplete(reason: str) -> None:
        if reporter.is_checking:
            reporter.monitor.incomplete(reason)

    install_children(patches, incomplete, lambda: None)


@cache
def _register() -> None:
    """Leave forked children alone from now on; a process cannot take that back."""
    processes.after_fork_in_child(_release_child)


def _release_child() -> None:
    for reporter in _watching:
        if reporter.is_checking:
            reporter.become_child()
            while any(isinstance(mode, WatchMode) for mode in current_dispatch_modes()):
                pop_dispatch_mode()
