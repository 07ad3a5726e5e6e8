"""Start listening to a program's GPUs for the time of a run, and leave everything as it was."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from itertools import count
from typing import TYPE_CHECKING, Any

import torch
import torch.autograd.graph
from torch.utils import checkpoint

from syncheck.cuda.collectives import Handles
from syncheck.cuda.eager import install_eager
from syncheck.cuda.graphs import install_graphs
from syncheck.cuda.hooks import Hooks
from syncheck.cuda.processes import install_processes
from syncheck.cuda.trace_handlers import Callbacks
from syncheck.cuda.triton import Triton
from syncheck.instrument.clocks import Clocks
from syncheck.instrument.patching import Patches
from syncheck.instrument.threads import install_threads

if TYPE_CHECKING:
    from syncheck.cuda.backend import Cuda


_FIRST_PASSES = 2
"""Backward passes that are listened to in any case: code in C++ may bring up a stream of its own in them."""


@contextmanager
def installed(cuda: "Cuda") -> Iterator[None]:
    """Watch the program; everything is as before afterwards."""
    patches = Patches()
    mode = cuda.new_mode()
    try:
        _install(cuda, patches)
        cuda.is_checking = True
        mode.__enter__()
        try:
            yield
        finally:
            cuda.is_checking = False
            if os.getpid() == cuda.pid:
                mode.__exit__(None, None, None)
    finally:
        if os.getpid() == cuda.pid:
            patches.undo()


def _install(cuda: "Cuda", patches: Patches) -> None:
    hooks = Hooks(cuda, patches)
    hooks.install()
    cuda.on_first_thread = hooks.watch_defaults
    install_graphs(cuda, patches)
    cuda.host.install(patches)
    _install_backward(cuda, patches)
    install_threads(cuda, patches)
    install_processes(cuda, patches)
    install_eager(cuda.note, patches)
    if torch.distributed.is_available():
        Handles(cuda).install(patches)
    Triton(cuda, patches).install()
    Clocks(lambda: cuda.monitor, patches, lambda: cuda.next_id("reading"), cuda.sites.here).install()
    _keep_recomputing(patches)
    Callbacks(cuda).install(patches)
    cuda.gpu_trace.install(patches)


def _keep_recomputing(patches: Patches) -> None:
    """Let checkpointing recompute a region to its end: it stops early by an error that it raises in a C++ function.

    Such an error does not survive the callbacks of the GPU trace, which are on in a backward pass.

    Source:
        torch/utils/checkpoint.py, `set_checkpoint_early_stop`.
    """
    if hasattr(checkpoint, "_enable_checkpoint_early_stop"):
        patches.set(checkpoint, "_enable_checkpoint_early_stop", False)


def _install_backward(cuda: "Cuda", patches: Patches) -> None:
    """Remember where backward() was called: the engine's threads have no Python frames."""
    original = torch.autograd.graph._engine_run_backward  # noqa: SLF001  the one door to the engine
    listened = cuda.gpu_trace.around(original)
    running: list[int] = []  # call sites of the calls that run now, of all threads
    passes = count()

    @wraps(original)
    def run(*args: Any, **kwargs: Any) -> Any:
        site = cuda.sites.here()
        if not running:
            cuda.gradients.begin(cuda.memory.next_ident())
        running.append(site)
        cuda.backward_site = running[0]
        try:
            if cuda.streams.sole_stream < 0 or cuda.host.buffers or next(passes) < _FIRST_PASSES:
                return listened(*args, **kwargs)
            return cuda.gpu_trace.defer(original, *args, **kwargs)
        finally:
            running.remove(site)
            cuda.backward_site = running[0] if running else 0

    patches.everywhere({original: run})
