"""What the hot path needs of an operator's plan, worked out once."""

from typing import Any

import torch

from syncheck.instrument.plan import Plan

# Operators that neither record an event, nor wait for one, nor make the host wait, on strided tensors; those with the
# tag `pointwise` and the `_foreach_` ones do not either, but for a few that want a number of a tensor. Source:
# aten/src/ATen/native/cuda; tests/gpu/test_silent.py runs torch's own samples of them.
_SILENT = frozenset(
    """mm addmm bmm baddbmm addmv mv dot vdot addr cat stack
    native_layer_norm native_layer_norm_backward native_group_norm native_group_norm_backward native_batch_norm
    native_batch_norm_backward cudnn_batch_norm cudnn_batch_norm_backward _fused_rms_norm _fused_rms_norm_backward
    sum mean prod amax amin aminmax argmax argmin any all var var_mean std std_mean logsumexp linalg_vector_norm norm
    cumsum max min _softmax _softmax_backward_data _log_softmax _log_softmax_backward_data
    nll_loss_forward nll_loss_backward nll_loss2d_forward nll_loss2d_backward embedding
    convolution convolution_backward cudnn_convolution max_pool2d_with_indices max_pool2d_with_indices_backward
    avg_pool2d avg_pool2d_backward _adaptive_avg_pool2d _adaptive_avg_pool2d_backward constant_pad_nd
    upsample_nearest2d upsample_bilinear2d native_dropout native_dropout_backward _fused_dropout
    bernoulli_ uniform_ normal_ fill_ zero_ copy_ _to_copy zeros ones full zeros_like ones_like full_like
    new_zeros new_ones new_full empty empty_like empty_strided new_empty new_empty_strided rand randn rand_like
    randn_like arange tril triu flip roll index_select gather scatter_ scatter_add_ masked_fill_
    slice_backward select_backward _fused_adam_ _fused_adamw_ _fused_sgd_
    _scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_backward
    _scaled_dot_product_efficient_attention _scaled_dot_product_efficient_attention_backward
    _scaled_dot_product_cudnn_attention _scaled_dot_product_cudnn_attention_backward""".split()
)
_WANTS_NUMBER = frozenset(
    "aten::fill_.Tensor aten::masked_fill.Tensor aten::masked_fill_.Tensor aten::bernoulli_.Tensor".split()
)
_ALLOCATING = frozenset("empty empty_like empty_strided new_empty new_empty_strided empty_permuted".split())


class DispatchPlan:
    """What the hot path needs of a plan."""

    __slots__ = (
        "arguments", "call", "fresh", "func", "is_composite", "is_flat", "is_item", "is_seen", "listens", "plan",
        "special",
    )  # fmt: skip

    def __init__(self, func: Any, plan: Plan, special: Any) -> None:
        self.func = func  # keeps it alive: plans are found by its id
        self.is_composite = _is_composite(func)
        self.plan = plan
        self.special = special
        self.call = func._op  # noqa: SLF001  what OpOverload.__call__ calls, one Python frame deeper
        kept = [a for a in plan.tensors if plan.touches and (a.is_read or a.is_write)]
        self.arguments = tuple((a.position, a.name, a.is_list, a.is_write) for a in kept)
        returns = func._schema.returns  # noqa: SLF001
        makes = any(r.alias_info is None and "Tensor" in str(r.type) for r in returns)
        self.fresh = makes and (plan.writes_outputs or plan.base in _ALLOCATING)
        types = [str(r.type) for r in returns]
        self.is_flat = types == ["List[Tensor]"] or (len(types) > 1 and not any("List" in kind for kind in types))
        self.is_seen = bool(plan.touches or self.fresh or special or plan.synchronizes)
        self.is_item = plan.base == "_local_scalar_dense"
        self.listens = plan.synchronizes or not (is_silent(func) or (not self.is_seen and func.namespace == "aten"))


class HigherOrder:
    """Stands for an operator whose parts come to the mode by themselves, such as a conditional or a dispatch graph."""

    is_composite = False
    is_item = False
    is_seen = False
    listens = True
    special = None
    plan = None

    def __init__(self, func: Any) -> None:
        self.func = self.call = func


def is_silent(func: Any) -> bool:
    """Tell whether an operator never records, waits or synchronizes, so that nobody need listen while it runs."""
    schema = func._schema  # noqa: SLF001  torch has no public name
    base = schema.name.partition("::")[2]
    if func.namespace != "aten" or f"{schema.name}.{schema.overload_name}" in _WANTS_NUMBER:
        return False
    return torch.Tag.pointwise in func.tags or base in _SILENT or base.startswith("_foreach_")


def _is_composite(func: Any) -> bool:
    """Tell whether an operator is made of others, which the mode sees only if it takes it apart: in inference mode.

    Source:
        torch/_ops.py, `OpOverload.decompose`; with autograd such operators are taken apart before they get here.
    """
    key = torch._C.DispatchKey.CompositeImplicitAutograd  # noqa: SLF001
    return bool(func.has_kernel_for_dispatch_key(key)) if hasattr(func, "has_kernel_for_dispatch_key") else False
