"""Attention of GPUs: the operators that `scaled_dot_product_attention` calls there, computed on the CPU.

Plain tensors need none of them: on the CPU, torch calls the CPU's operator, which has the same accesses. But DTensor,
and so context parallelism, has rules only for the operators of GPUs.

Source:
    aten/src/ATen/native/transformers/cuda/attention.cu and attention_backward.cu;
    torch/distributed/tensor/_ops/_matrix_ops.py and torch/distributed/tensor/experimental/_context_parallel.
"""

from collections.abc import Callable
from typing import Any

import torch

from syncheck.instrument.torch_internals import OpOverload
from syncheck.sim.device_kind import is_on_gpu
from syncheck.sim.errors import NotSimulatedError

aten = torch.ops.aten
_ON_CPU = aten._scaled_dot_product_flash_attention_for_cpu.default
_ON_CPU_BACKWARD = aten._scaled_dot_product_flash_attention_for_cpu_backward.default
_ON_GPU = aten._scaled_dot_product_flash_attention.default
_ON_GPU_BACKWARD = aten._scaled_dot_product_flash_attention_backward.default


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Any, ...]:
    """Return the output, the logarithm of the sum of exponentials, and what only the GPU's backward pass needs."""
    del return_debug_mask
    if dropout_p:
        raise NotSimulatedError("flash attention with dropout")
    output, logsumexp = _ON_CPU(query, key, value, 0.0, is_causal, scale=scale)
    seed, offset, mask = torch.zeros(2, dtype=torch.uint64), torch.zeros((), dtype=torch.uint64), query.new_empty(0)
    return output, logsumexp, None, None, query.size(2), key.size(2), seed, offset, mask


def _attention_backward(*args: Any, scale: float | None = None) -> Any:
    """Return the gradients of query, key and value."""
    tensors, (dropout_p, is_causal) = args[:6], args[10:12]
    return _ON_CPU_BACKWARD(*tensors, dropout_p, is_causal, scale=scale)


KERNELS: dict[OpOverload, Callable[..., Any]] = {_ON_GPU: _attention, _ON_GPU_BACKWARD: _attention_backward}
"""Operator -> function that computes it."""


def is_sharded(func: Any, args: tuple[Any, ...]) -> bool:
    """Return whether a call is the CPU's attention of distributed tensors on simulated GPUs."""
    return func in {_ON_CPU, _ON_CPU_BACKWARD} and hasattr(args[0], "device_mesh") and is_on_gpu(args[0])


def run_sharded(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run the GPU's operator instead of the CPU's.

    Raises:
        NotSimulatedError: for a mask, which the GPU's operator does not have.
    """
    if kwargs.get("attn_mask") is not None:
        raise NotSimulatedError("attention of distributed tensors with a mask")
    if func is _ON_CPU:
        return _ON_GPU(*args, scale=kwargs.get("scale"))[:2]
    tensors, options = args[:6], args[6:]
    starts, lengths = (None, None), (args[1].size(2), args[2].size(2))
    seed = offset = args[1].new_zeros(())
    return _ON_GPU_BACKWARD(*tensors, *starts, *lengths, *options, seed, offset, scale=kwargs.get("scale"))
