"""Control flow operators of torch that are traced or transformed by `torch.func`."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import _python_dispatch
from torch.utils._pytree import tree_leaves

from syncheck.instrument.modes import without_modes
from syncheck.instrument.patching import Patches
from syncheck.sim.device_kind import is_on_gpu
from syncheck.sim.errors import NotSimulatedError
from syncheck.sim.mode import SimulatorMode


@contextmanager
def without_simulation(args: tuple[Any, ...]) -> Iterator[None]:
    """Run a branch or loop with these arguments on the CPU alone, without simulation.

    Raises:
        NotSimulatedError: an argument is on a GPU.

    Source:
        torch/_dynamo/convert_frame.py, `CatchErrorsWrapper.__call__`: torch 2.8 compiles nothing while the flag is set.
    """
    if any(isinstance(leaf, torch.Tensor) and is_on_gpu(leaf) for leaf in tree_leaves(args)):
        raise NotSimulatedError(
            "torch control flow (torch.cond or a loop) on a GPU inside a torch.func transform or a trace",
            "transform or trace it on the CPU",
        )
    patches = Patches()
    with without_modes(SimulatorMode):
        patches.set(_python_dispatch, "_is_in_non_infra_torch_dispatch_mode", False)
        try:
            yield
        finally:
            patches.undo()
