"""When the host waits for the current stream in an operator: by what the operator is given."""

from collections.abc import Callable
from enum import Enum, auto
from typing import Any

import torch

from syncheck.capture.plan import MASKED, Plan


class Wait(Enum):
    """When the host waits: never, before the operator's kernel is launched, or after it."""

    NEVER = auto()
    BEFORE = auto()
    AFTER = auto()


def wait_of(
    plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any], is_on_gpu: Callable[[torch.Tensor], bool]
) -> Wait:
    """Return when the host waits in an operator.

    Args:
        plan: the operator's.
        args: what it is given by position.
        kwargs: what it is given by name.
        is_on_gpu: tells whether a tensor lies on a GPU.
    """
    if _needs_size(plan, args, kwargs) or any(is_on_gpu(number) for number in _numbers(plan, args)):
        return Wait.BEFORE
    return Wait.AFTER if plan.synchronizes and not plan.counts else Wait.NEVER


def _needs_size(plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Tell whether the host must count first, or find the bounds between which to count.

    Source:
        aten/src/ATen/native/Repeat.cpp; aten/src/ATen/native/cuda/SummaryOps.cu, `_histc_cuda_template`.
    """
    if plan.base == "repeat_interleave":
        return kwargs.get("output_size") is None
    if plan.base == "histc":
        low, high = (args[i] if i < len(args) else kwargs.get(name, 0) for i, name in ((2, "min"), (3, "max")))
        return bool(low == high)
    return plan.counts or (_has_mask(plan, args) and not _has_one_value(plan, args))


def _numbers(plan: Plan, args: tuple[Any, ...]) -> list[torch.Tensor]:
    """Return the tensors that stand for numbers: `x[mask] = number` is `masked_fill_`."""
    is_fill = _has_mask(plan, args) and _has_one_value(plan, args)
    given = [args[position] for position in ((2,) if is_fill else plan.numbers) if position < len(args)]
    return [number for number in given if isinstance(number, torch.Tensor)]


def _has_mask(plan: Plan, args: tuple[Any, ...]) -> bool:
    if plan.base not in MASKED or len(args) < 2:
        return False
    return any(index is not None and index.dtype in {torch.bool, torch.uint8} for index in args[1])


def _has_one_value(plan: Plan, args: tuple[Any, ...]) -> bool:
    return plan.base in {"index_put_", "_index_put_impl_"} and len(args) > 2 and bool(args[2].numel() == 1)
