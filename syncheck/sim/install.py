"""Put the virtual GPUs in place of CUDA for the time of a run, and take them away again."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import torch
import torch.autograd.graph
import torch.cuda
import torch.nn.parallel.comm
import torch.utils.data.dataloader

from syncheck.instrument.clocks import Clocks
from syncheck.instrument.patching import Patches
from syncheck.instrument.threads import install_threads
from syncheck.sim.autocast import Autocast
from syncheck.sim.creation import Creation
from syncheck.sim.cuda_api import install_cuda
from syncheck.sim.device_type import install_device_type
from syncheck.sim.host_reads import HostReads
from syncheck.sim.legacy_types import LegacyTypes
from syncheck.sim.nccl import install_distributed
from syncheck.sim.parallel import ParallelShim
from syncheck.sim.processes import install_processes
from syncheck.sim.simulator import Simulator, set_active
from syncheck.sim.storages import StorageShim
from syncheck.sim.tensors import TensorShim, install_module_moves
from syncheck.sim.unsupported import hide_cuda, install_unsupported


@contextmanager
def installed(simulator: Simulator) -> Iterator[None]:
    """Let the program see virtual GPUs; everything is as before afterwards."""
    patches = Patches()
    set_active(simulator)
    try:
        install(simulator, patches)
        mode = simulator.new_mode()
        mode.__enter__()
        try:
            yield
        finally:
            simulator.is_checking = False
            if os.getpid() == simulator.pid:
                mode.__exit__(None, None, None)
    finally:
        if os.getpid() == simulator.pid:
            patches.undo()
            set_active(None)


def install(simulator: Simulator, patches: Patches) -> None:
    """Replace everything that knows about CUDA, but for the dispatch mode, which each thread enters by itself."""
    hide_cuda(patches)
    install_device_type(patches)
    TensorShim(simulator, patches).install()
    install_module_moves(patches)
    HostReads(simulator, patches).install()
    Creation(simulator, patches).install()
    LegacyTypes(simulator, patches).install()
    StorageShim(simulator, patches).install()
    ParallelShim(simulator, patches).install()
    install_cuda(simulator, patches)
    _install_autograd(simulator, patches)
    Autocast(simulator, patches).install()
    install_unsupported(simulator, patches)
    install_threads(simulator, patches)
    install_processes(simulator, patches)
    install_distributed(simulator, patches)
    gpus = simulator.gpus
    Clocks(lambda: gpus.monitor, patches, lambda: gpus.next_id("reading"), gpus.site).install()


def _install_autograd(simulator: Simulator, patches: Patches) -> None:
    original = torch.autograd.graph._engine_run_backward  # noqa: SLF001  the one door to the engine

    @wraps(original)
    def run(*args: Any, **kwargs: Any) -> Any:
        with simulator.backward.running():
            result = original(*args, **kwargs)
        if not simulator.backward.is_running:
            simulator.distributed.join_ddp_pending()
        return result

    patches.everywhere({original: run})
    apply = torch.autograd.Function.apply.__func__  # type: ignore[attr-defined]  # a class method
    device = simulator.memory.device

    def applied(cls: Any, *args: Any, **kwargs: Any) -> Any:
        result = apply(cls, *args, **kwargs)
        simulator.backward.note_function(result, device)
        return result

    patches.set(torch.autograd.Function, "apply", classmethod(wraps(apply)(applied)))
