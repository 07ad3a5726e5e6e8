"""When the host waits for the current stream in an operator: by what the operator is given."""

from collections.abc import Callable
from enum import Enum, auto
from typing import Any

import torch

from syncheck.instrument.plan import MASKED, Plan

_IsOnGpu = Callable[[torch.Tensor], bool]
_FILLS = frozenset({"index_put", "index_put_", "_index_put_impl_"})
_MASKS = frozenset({torch.bool, torch.uint8})


class Wait(Enum):
    """When the host waits: never, before the operator's kernel is launched, or after it."""

    NEVER = auto()
    BEFORE = auto()
    AFTER = auto()


def wait_of(plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any], is_on_gpu: _IsOnGpu) -> Wait:
    """Return when the host waits in an operator on a GPU.

    Args:
        plan: the operator's.
        args: what it is given by position.
        kwargs: what it is given by name.
        is_on_gpu: tells whether a tensor lies on a GPU.
    """
    numbers = [args[position] for position in plan.numbers if position < len(args)]
    if _needs_size(plan, args, kwargs) or _needs_indices(plan, args, is_on_gpu):
        return Wait.BEFORE
    if any(isinstance(number, torch.Tensor) and is_on_gpu(number) for number in numbers):
        return Wait.BEFORE
    return Wait.AFTER if plan.synchronizes and not plan.counts else Wait.NEVER


def _needs_size(plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Tell whether the host must know how large a result will be, or between which bounds to count.

    Source:
        aten/src/ATen/native/Repeat.cpp; aten/src/ATen/native/cuda/SummaryOps.cu, `_histc_cuda_template`.
    """
    if plan.base == "repeat_interleave":
        repeats = args[1] if len(args) > 1 else args[0]  # a number, or a tensor of them
        return isinstance(repeats, torch.Tensor) and kwargs.get("output_size") is None
    if plan.base == "histc":
        low, high = (args[i] if i < len(args) else kwargs.get(name, 0) for i, name in ((2, "min"), (3, "max")))
        return bool(low == high)
    return plan.counts


def _needs_indices(plan: Plan, args: tuple[Any, ...], is_on_gpu: _IsOnGpu) -> bool:
    """Tell whether the host waits for indices: it counts masks on the GPU, and copies positions that it has itself.

    A mask that it has itself it counts at once, and copies the result from pinned memory.

    Source:
        ATen/native/IndexingUtils.h, `expandTensors`; ATen/native/TensorAdvancedIndexingUtils.h,
        `canDispatchToMaskedFill`.
    """
    if plan.base not in MASKED or len(args) < 2:
        return False
    given = [index for index in args[1] if index is not None]
    is_one = len(given) == 1 and given[0].dtype in _MASKS and is_on_gpu(given[0])
    if is_one and plan.base in _FILLS and args[2].numel() == 1 and not any(args[3:4]):
        return is_on_gpu(args[2])  # else `masked_fill_`, with a number of the host
    return any(is_on_gpu(index) == (index.dtype in _MASKS) for index in given)
