"""Operators that torch implements only for GPUs, computed on the CPU: here, those of `torch.nn.SyncBatchNorm`.

Source:
    aten/src/ATen/native/cuda/Normalization.cuh. Channels are dimension 1; statistics of half precision are float32.
"""

from collections.abc import Callable
from typing import Any

import torch

from syncheck.instrument.torch_internals import OpOverload, schema_of
from syncheck.sim import attention

aten = torch.ops.aten


def _stats(values: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the mean and inverse standard deviation of each channel: `batch_norm_stats_template`."""
    wide = _wide(values)
    others = _reduced_dims(values)
    return wide.mean(others), (wide.var(others, correction=0) + eps).rsqrt()


def _gather_stats(
    values: torch.Tensor,
    mean: torch.Tensor,
    invstd: torch.Tensor,
    running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None,
    momentum: float,
    eps: float,
    counts: int | torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the combined statistics of all ranks: `batch_norm_reduce_statistics_kernel`.

    Args:
        values: unused.
        mean: mean of each rank and channel.
        invstd: inverse standard deviation of each rank and channel.
        running_mean: updated in place.
        running_var: updated in place.
        momentum: momentum of the running statistics.
        eps: the same as for the ranks' statistics.
        counts: number of elements per channel on each rank.
    """
    del values
    sizes = torch.as_tensor(counts, dtype=mean.dtype).expand(len(mean)).unsqueeze(1)
    total = sizes.sum()
    every_mean = (mean * sizes).sum(0) / total
    squares = ((invstd.pow(-2) - eps) * sizes + (mean - every_mean).square() * sizes).sum(0)
    if running_mean is not None:
        running_mean.lerp_(every_mean.to(running_mean.dtype), momentum)
    if running_var is not None:
        running_var.lerp_((squares / (total - 1)).to(running_var.dtype), momentum)
    return every_mean, (squares / total + eps).rsqrt()


def _normalized(
    values: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    mean: torch.Tensor,
    invstd: torch.Tensor,
    eps: float,
) -> torch.Tensor:
    """Return the normalized values: `batch_norm_elemt_cuda`."""
    del eps  # already part of `invstd`
    result = (_wide(values) - _along(mean, values)) * _along(invstd, values)
    if weight is not None:
        result *= _along(weight, values)
    if bias is not None:
        result += _along(bias, values)
    return result.to(values.dtype)


def _backward_reduce(
    gradient: torch.Tensor,
    values: torch.Tensor,
    mean: torch.Tensor,
    invstd: torch.Tensor,
    weight: torch.Tensor | None,
    wants_input: bool,
    wants_weight: bool,
    wants_bias: bool,
) -> tuple[torch.Tensor | None, ...]:
    """Return the sums that ranks reduce, and the gradients of weight and bias: `batch_norm_backward_reduce_cuda`."""
    wide, others = _wide(gradient), _reduced_dims(values)
    total = wide.sum(others)
    product = (wide * (_wide(values) - _along(mean, values))).sum(others)
    dtype = values.dtype if weight is None else weight.dtype
    return (
        total if wants_input else None,
        product if wants_input else None,
        (product * invstd).to(dtype) if wants_weight else None,
        total.to(dtype) if wants_bias else None,
    )


def _backward(
    gradient: torch.Tensor,
    values: torch.Tensor,
    mean: torch.Tensor,
    invstd: torch.Tensor,
    weight: torch.Tensor | None,
    total: torch.Tensor,
    product: torch.Tensor,
    counts: torch.Tensor,
) -> torch.Tensor:
    """Return the gradient of the values: `batch_norm_backward_elemt_cuda`."""
    n = counts.sum()
    centred = _wide(values) - _along(mean, values)
    result = _wide(gradient) - _along(total / n, values) - centred * _along(invstd.square() * product / n, values)
    result *= _along(invstd if weight is None else invstd * weight, values)
    return result.to(values.dtype)


def _wide(values: torch.Tensor) -> torch.Tensor:
    """Return values in the data type in which a GPU accumulates them."""
    return values.float() if values.dtype in {torch.half, torch.bfloat16} else values


def _reduced_dims(values: torch.Tensor) -> list[int]:
    return [dimension for dimension in range(values.dim()) if dimension != 1]


def _along(channels: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Return per-channel values in a shape that broadcasts to `values`."""
    return channels.reshape(1, -1, *[1] * (values.dim() - 2))


KERNELS: dict[OpOverload, Callable[..., Any]] = {
    aten.batch_norm_stats.default: _stats,
    aten.batch_norm_gather_stats.default: _gather_stats,
    aten.batch_norm_gather_stats_with_counts.default: _gather_stats,
    aten.batch_norm_elemt.default: _normalized,
    aten.batch_norm_backward_reduce.default: _backward_reduce,
    aten.batch_norm_backward_elemt.default: _backward,
    **attention.KERNELS,
}
"""Operator -> function that computes it."""

GPU_ONLY = frozenset(schema_of(operator).name for operator in KERNELS)
"""Their names without overloads. Looking up a name is faster than an operator, whose hash is computed in Python."""
