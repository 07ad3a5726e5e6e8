"""Child processes of the program: forked ones cannot use CUDA and are not checked."""

from functools import cache

from syncheck.cuda.mode import WatchMode
from syncheck.cuda.reporter import Reporter
from syncheck.instrument.children import install_children
from syncheck.instrument.patching import Patches
from syncheck.instrument.torch_internals import current_dispatch_modes, pop_dispatch_mode
from syncheck.system import processes

_watching: list[Reporter] = []


def install_processes(reporter: Reporter, patches: Patches) -> None:
    """Handle forks and spawned processes."""
    _register()
    _watching[:] = [reporter]
    patches.on_undo(_watching.clear)

    def incomplete(reason: str) -> None:
        if reporter.is_checking:
            reporter.monitor.incomplete(reason)

    install_children(patches, incomplete, lambda: None)


@cache
def _register() -> None:
    """Register the release of forked children; a process cannot unregister it."""
    processes.after_fork_in_child(_release_child)


def _release_child() -> None:
    for reporter in _watching:
        if reporter.is_checking:
            reporter.become_child()
            while any(isinstance(mode, WatchMode) for mode in current_dispatch_modes()):
                pop_dispatch_mode()
