"""Branches and loops of torch that are traced, or that `torch.func` transforms."""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from syncheck.instrument.modes import without_modes
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
            with without_modes(SimulatorMode):
                return made(*args)

        return run

    return compiled
