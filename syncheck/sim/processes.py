"""Child processes that are not checked.

Forked ones see virtual GPUs unless their parent had used one. So do spawned ones.
"""

import warnings
from functools import cache

import torch

from syncheck.instrument.children import install_children
from syncheck.instrument.patching import Patches
from syncheck.instrument.torch_internals import current_dispatch_modes, pop_dispatch_mode
from syncheck.sim.device_kind import simulated
from syncheck.sim.mode import SimulatorMode
from syncheck.sim.runtime import Runtime
from syncheck.sim.spawn_payload import SpawnPayload
from syncheck.system import processes

_FACTORIES = (torch.ops.aten.empty.memory_format, torch.ops.aten.empty_strided.default)
"""Operators that allocate the results of all factory functions."""

_watching: list[Runtime] = []
_libraries: list[torch.library.Library] = []


def install_processes(runtime: Runtime, patches: Patches) -> None:
    """Prepare for forked and spawned child processes."""
    _register()
    _watching[:] = [runtime]

    def incomplete(reason: str) -> None:
        runtime.gpus.monitor.incomplete(reason)  # the current monitor: that of a forked child ignores it

    install_children(patches, incomplete, lambda: SpawnPayload(len(runtime.gpus.devices), simulated().name))


@cache
def _register() -> None:
    """Register the fork handler that stops checking in children. It cannot be unregistered."""
    processes.after_fork_in_child(_release_child)


def _release_child() -> None:
    for runtime in _watching:
        if not runtime.is_checking:
            continue
        runtime.become_child()
        if runtime.is_in_bad_fork:
            while any(type(mode) is SimulatorMode for mode in current_dispatch_modes()):
                pop_dispatch_mode()
            _reject_factories(runtime)


def _reject_factories(runtime: Runtime) -> None:
    """Make factory functions raise CUDA's error, as the kernels of a CUDA build of torch do where there is a GPU."""
    key = simulated().name.upper()
    library = torch.library.Library("aten", "IMPL", key)  # type: ignore[no-untyped-call]  # torch leaves it untyped
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns about the kernels that are replaced
        for factory in _FACTORIES:
            library.impl(factory, lambda *_, **__: runtime.check_process())  # type: ignore[no-untyped-call]
    _libraries.append(library)
