"""Random numbers of operators that `torch.func` transforms, such as dropout under `torch.vmap`.

torch's C++ code gives some of these operators a new tensor with the options of the one that they were called with, and
draws numbers for that. Since a virtual GPU tensor has the CPU's options, its device has to be noted before.

Source:
    aten/src/ATen/functorch/PyTorchOperatorHacks.cpp: `dropout_hack` and its siblings, in every transform;
    aten/src/ATen/functorch/BatchRulesRandomness.cpp: RANDOM_INPLACE_BATCH_RULE, under `randomness="same"`.
"""

import threading
from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import torch

from syncheck.instrument.higher_order import pass_over
from syncheck.instrument.patching import Patches
from syncheck.instrument.torch_internals import OUTERMOST, dispatch_by, functorch, keys_below
from syncheck.semantics.copies import HOST_DEVICE
from syncheck.sim.memory import Memory
from syncheck.sim.placement import Placement

_DROPOUTS = "dropout feature_dropout alpha_dropout feature_alpha_dropout".split()
_IN_PLACE = """bernoulli_.float bernoulli_.Tensor cauchy_ exponential_ geometric_ log_normal_ normal_ random_
random_.from random_.to uniform_""".split()
OPERATORS = [*_DROPOUTS, *(f"{name}_" for name in _DROPOUTS), *_IN_PLACE]
_KINDS = ("vmap", "grad", "jvp", "func")
_LEVELS = [f"_{kind}_{change}_nesting" for kind in _KINDS for change in ("increment", "decrement")]
"""Functions that enter and leave the level of a transform."""


class TransformedRandom:
    """Makes random operators in transforms create their tensors on the virtual device of their argument."""

    def __init__(self, memory: Memory, placement: Placement, patches: Patches) -> None:
        self._memory = memory
        self._placement = placement
        self._patches = patches
        self._library: Any = None
        self._registering = threading.Lock()

    def install(self) -> None:
        """Intercept the operators in every transform.

        Source:
            torch/_functorch/vmap.py and eager_transforms.py: each transform enters and leaves a level.
        """
        changes = [getattr(functorch, name) for name in _LEVELS]
        self._patches.everywhere({change: self._followed(change) for change in changes})
        pass_over(OUTERMOST, self._patches)
        self._patches.on_undo(self._unregister)

    def _followed(self, change: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(change)
        def change_and_follow(*args: Any, **kwargs: Any) -> Any:
            result = change(*args, **kwargs)
            is_transforming = functorch.maybe_current_level() is not None
            if is_transforming:
                self._register()
            dispatch_by(OUTERMOST, included=is_transforming)
            return result

        return change_and_follow

    def _register(self) -> None:
        with self._registering:
            if self._library is None:
                _pass_others()
                self._library = _library("aten")
                for name in OPERATORS:
                    base, _, overload = name.partition(".")
                    operator = getattr(getattr(torch.ops.aten, base), overload or "default")
                    self._library.impl(operator, self._kernel(operator), with_keyset=True)

    def _unregister(self) -> None:
        dispatch_by(OUTERMOST, included=False)
        if self._library is not None:
            self._library._destroy()  # there is no public API
            self._library = None

    def _kernel(self, operator: Any) -> Callable[..., Any]:
        below = keys_below(OUTERMOST)

        def kernel(keys: Any, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            device = self._memory.device(tensor)
            if device == HOST_DEVICE:
                return operator.redispatch(keys & below, tensor, *args, **kwargs)
            with self._placement.creating_on(device):
                return operator.redispatch(keys & below, tensor, *args, **kwargs)

        return kernel


@cache
def _pass_others() -> Any:
    """Dispatch all other operators by their next key, for as long as the process lives."""
    library = _library("_")
    library.fallback(torch.library.fallthrough_kernel, OUTERMOST)
    return library


def _library(namespace: str) -> Any:
    return torch.library.Library(namespace, "IMPL", OUTERMOST)  # type: ignore[no-untyped-call]  # torch leaves it untyped
