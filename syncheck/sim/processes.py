"""Processes that the program starts: forked ones are left alone, spawned ones that are not checked see virtual GPUs."""

import os

from syncheck.instrument.children import install_children
from syncheck.instrument.patching import Patches
from syncheck.sim.simulator import Simulator
from syncheck.sim.spawn_payload import SpawnPayload

_forked_simulators: list[Simulator] = []


def install_processes(simulator: Simulator, patches: Patches) -> None:
    """Follow forks and spawns."""
    if not _forked_simulators:
        os.register_at_fork(after_in_child=_release_child)
    _forked_simulators[:] = [simulator]

    def incomplete(reason: str) -> None:
        simulator.gpus.monitor.incomplete(reason)  # the one of now: a forked child's is silent

    install_children(patches, incomplete, lambda: SpawnPayload(len(simulator.gpus.devices)))


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
