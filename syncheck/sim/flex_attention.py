"""Gradients of `flex_attention`: those of its component operators, and so also of tensors that its functions capture.

torch's own derivative has those of captured tensors only in compiled code, where they are arguments of the operator.

Source:
    torch/_higher_order_ops/flex_attention.py, `flex_attention_autograd`: `score_mod_other_buffers`, which
    torch.compile fills. `sdpa_dense` is the implementation in terms of operators.
"""

from typing import Any

import torch
from torch._higher_order_ops.flex_attention import flex_attention

from syncheck.instrument.patching import Patches
from syncheck.instrument.torch_internals import C, is_traced
from syncheck.sim.device_kind import is_on_gpu

_AUTOGRAD, _DENSE = C.DispatchKey.Autograd, C.DispatchKey.CompositeExplicitAutograd
_Q_INDICES = 7
"""Position of the rows that attend to each column in a block mask, which only the backward pass needs."""


def install_flex_attention(patches: Patches) -> None:
    """Let autograd record the component operators of `flex_attention` on a GPU."""
    kernels: dict[Any, Any] = flex_attention.py_kernels
    original, dense = kernels[_AUTOGRAD], kernels[_DENSE]

    def differentiable(query: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if is_traced() or not is_on_gpu(query):
            return original(query, *args, **kwargs)
        output, logsumexp, *statistics = dense(query, *args, **kwargs)
        if output.requires_grad and args[3][_Q_INDICES] is None:
            raise RuntimeError("BlockMask q_indices is None. Backward pass requires q_indices to be computed.")
        return (output, logsumexp, *(value.detach() for value in statistics))

    patches.set(flex_attention, "py_kernels", {**kernels, _AUTOGRAD: differentiable})
    patches.set(flex_attention, "_dispatch_cache", {})
