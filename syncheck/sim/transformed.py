"""Branches and loops of torch that are traced, or that `torch.func` transforms."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from syncheck.instrument.modes import enter_mode, leave_mode
from syncheck.instrument.torch_internals import current_dispatch_modes
from syncheck.sim.device_kind import is_on_gpu
from syncheck.sim.errors import NotSimulatedError
from syncheck.sim.mode import SimulatorMode


def compiled_without_simulator(compile_function: Any) -> Callable[..., Any]:
    """Return what compiles a branch or a loop on the CPU, and runs it, below all that is simulated.

    Args:
        compile_function: `torch.compile`, as torch has it.
    """

    def compiled(function: Any, **kwargs: Any) -> Callable[..., Any]:
        made = compile_function(function, **kwargs)

        def run(*args: Any) -> Any:
            if any(isinstance(leaf, torch.Tensor) and is_on_gpu(leaf) for leaf in tree_leaves(args)):
                raise NotSimulatedError(
                    "torch.cond, or a loop of torch, on a GPU while torch.func transforms it, or it is traced",
                    "transform, or trace, it on the CPU",
                )
            with _without_simulator():
                return made(*args)

        return run

    return compiled


@contextmanager
def _without_simulator() -> Iterator[None]:
    entered = [mode for mode in current_dispatch_modes() if isinstance(mode, SimulatorMode)]
    for mode in entered:
        leave_mode(mode)
    try:
        yield
    finally:
        for mode in entered:
            enter_mode(mode)
