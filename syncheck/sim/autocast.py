"""`torch.autocast("cuda")`: operators on virtual GPUs follow CUDA's lists of operators instead of the CPU's.

Source:
    aten/src/ATen/autocast_mode.h: AT_FORALL_LOWER_PRECISION_FP, AT_FORALL_FP32, AT_FORALL_FP32_SET_OPT_DTYPE,
    AT_FORALL_PROMOTE; autocast_mode.cpp for what each group does.
    aten/src/ATen/cudnn/AutocastRNN.cpp: recurrent networks compute in float16, whatever the lower precision is.
    c10/core/DispatchKey.h: the order of the dispatch keys.
"""

import threading
import warnings
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from syncheck.instrument.higher_order import pass_over
from syncheck.instrument.patching import Patches
from syncheck.instrument.torch_internals import (
    NO_CPU_AUTOCAST,
    DisableAutocast,
    dispatch_by,
    exclude_key,
    keys_below,
    registrations_for_key,
    schema_of,
)
from syncheck.sim.device_kind import is_on_gpu, simulated

_LOWER = """_convolution.deprecated _convolution conv1d conv1d.padding conv2d conv2d.padding conv3d conv3d.padding
conv_tbc conv_transpose1d conv_transpose2d.input conv_transpose3d.input convolution prelu addmm addmv addr matmul
einsum mm mv linalg_vecdot linear addbmm baddbmm bmm chain_matmul linalg_multi_dot _thnn_fused_lstm_cell
_thnn_fused_gru_cell lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell scaled_dot_product_attention""".split()
_FULL = """acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow.Tensor_Scalar
pow.Tensor_Tensor pow.Scalar softplus layer_norm native_layer_norm rms_norm group_norm frobenius_norm.dim nuclear_norm
nuclear_norm.dim cosine_similarity poisson_nll_loss cosine_embedding_loss nll_loss nll_loss2d hinge_embedding_loss
kl_div l1_loss smooth_l1_loss huber_loss mse_loss margin_ranking_loss multilabel_margin_loss soft_margin_loss
triplet_margin_loss multi_margin_loss binary_cross_entropy_with_logits dist pdist cdist renorm logsumexp
upsample_nearest1d _upsample_nearest_exact1d upsample_nearest2d _upsample_nearest_exact2d upsample_nearest3d
_upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d _upsample_bilinear2d_aa upsample_trilinear3d
upsample_bicubic2d _upsample_bicubic2d_aa norm.Scalar norm.ScalarOpt_dim""".split()
_FULL_RESULT = """prod prod.dim_int softmax.int log_softmax.int cumprod cumsum linalg_vector_norm linalg_matrix_norm
linalg_matrix_norm.str_ord sum sum.dim_IntList""".split()
_WIDEST = "addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add".split()
_RECURRENT = [f"{name}.{kind}" for name in ("lstm", "gru", "rnn_tanh", "rnn_relu") for kind in ("input", "data")]
_BANNED = ["binary_cross_entropy"]
_UNSAFE = """torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.
Many models use a sigmoid layer right before the binary cross entropy layer.
In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits
or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are
safe to autocast."""
_CPU_AUTOCAST = "AutocastCPU"
Kernel = Callable[..., Any]


class Autocast:
    """Implements CUDA's autocast for tensors of virtual devices, and keeps the CPU's autocast from them.

    The tensors have the CPU's dispatch keys, and both can be enabled independently. Therefore, where the GPU's autocast
    is enabled, the GPU's key dispatches all operators, and where the CPU's is, so does a key that is handled before it.
    """

    def __init__(self, patches: Patches) -> None:
        self._patches = patches
        self._gpu_key = f"Autocast{simulated().name.upper()}"
        self._libraries: list[Any] = []
        self._casts: dict[int, tuple[weakref.ref[torch.Tensor], torch.Tensor]] = {}
        self._registering = threading.Lock()

    def install(self) -> None:
        """Follow the state of both in every thread.

        Source:
            torch/amp/autocast_mode.py, `autocast.__enter__` and `__exit__`: they call `torch.set_autocast_enabled`.
        """
        for name in ("set_autocast_enabled", "set_autocast_cpu_enabled"):
            self._patches.set(torch, name, self._followed(getattr(torch, name)))
        clear = torch.clear_autocast_cache

        def clear_both() -> None:
            clear()
            self._casts.clear()

        self._patches.set(torch, "clear_autocast_cache", clear_both)
        self._patches.on_undo(self._unregister)
        for key in (self._gpu_key, NO_CPU_AUTOCAST):
            pass_over(key, self._patches)
        self._follow()

    def _followed(self, set_enabled: Callable[..., None]) -> Callable[..., None]:
        def set_and_follow(*args: Any, **kwargs: Any) -> None:
            set_enabled(*args, **kwargs)
            self._follow()

        return set_and_follow

    def _follow(self) -> None:
        """Dispatch this thread's operators by the keys of what is enabled in it."""
        on_gpu, on_cpu = torch.is_autocast_enabled(simulated().name), torch.is_autocast_enabled("cpu")
        if on_gpu or on_cpu:
            self._register()
        self._dispatch_by(on_gpu=on_gpu, on_cpu=on_cpu)

    def _dispatch_by(self, *, on_gpu: bool, on_cpu: bool) -> None:
        dispatch_by(self._gpu_key, included=on_gpu)  # torch excludes it where the GPU's autocast is disabled
        dispatch_by(NO_CPU_AUTOCAST, included=on_cpu)
        exclude_key(NO_CPU_AUTOCAST, excluded=not on_cpu)

    # -- kernels

    def _register(self) -> None:
        with self._registering:
            if not self._libraries:
                self._libraries = [_library(self._gpu_key, self._rules()), _library(NO_CPU_AUTOCAST, _exceptions())]

    def _unregister(self) -> None:
        self._dispatch_by(on_gpu=False, on_cpu=False)
        while self._libraries:
            self._libraries.pop()._destroy()  # there is no public API

    def _rules(self) -> dict[Any, Kernel]:
        """Return the kernels of the operators that CUDA's autocast casts."""
        rules: dict[Any, Kernel] = {}
        for names, make in (
            (_LOWER, partial(self._casting, None)),
            (_FULL, partial(self._casting, torch.float32)),
            (_RECURRENT, partial(self._casting, torch.float16)),
            (_FULL_RESULT, self._full_result),
            (_WIDEST, self._widest),
            (_BANNED, _banned),
        ):
            rules |= {op: _on(self._gpu_key, op, make(op)) for op in _operators(names)}
        return rules

    def _casting(self, dtype: torch.dtype | None, operator: Any) -> Kernel:
        def rule(*args: Any, **kwargs: Any) -> Any:
            return _below_autocast(operator, *self._cast((args, kwargs), dtype))

        return rule

    def _full_result(self, operator: Any) -> Kernel:
        names = [argument.name for argument in schema_of(operator).arguments if not argument.kwarg_only]
        position = names.index("dtype") if "dtype" in names else len(names)

        def rule(*args: Any, **kwargs: Any) -> Any:
            given = args[position] if position < len(args) else kwargs.get("dtype")
            if given is None and _is_cast(args[0]):
                args, kwargs = args[:position], {**kwargs, "dtype": torch.float32}
            return _below_autocast(operator, args, kwargs)

        return rule

    def _widest(self, operator: Any) -> Kernel:
        def rule(*args: Any, **kwargs: Any) -> Any:
            dtypes = {value.dtype for value in _tensors((args, kwargs)) if _is_cast(value)}
            widest = torch.float32 if torch.float32 in dtypes else next(iter(dtypes), None)
            return _below_autocast(
                operator, *(self._cast((args, kwargs), widest) if len(dtypes) > 1 else (args, kwargs))
            )

        return rule

    def _cast(self, values: Any, dtype: torch.dtype | None) -> Any:
        """Cast the tensors that autocast applies to. None: to the lower precision."""
        wanted = dtype or torch.get_autocast_dtype(simulated().name)

        def cast(value: Any) -> Any:
            if not _is_cast(value) or value.dtype == wanted:
                return value
            return self._cached_cast(value, wanted) if dtype is None and _is_weight(value) else value.to(wanted)

        return tree_map(cast, values)

    def _cached_cast(self, weight: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """Return the cast of a weight. It is cached until the end of the region, whatever stream it was made on.

        Source:
            aten/src/ATen/autocast_mode.cpp, `cached_cast`: keyed by the weight alone; torch/amp/autocast_mode.py,
            `__exit__`: cleared when the outermost region ends.
        """
        if not torch.is_autocast_cache_enabled():
            return weight.to(dtype)
        known = self._casts.get(id(weight))
        if known is not None and known[0]() is weight:
            return known[1]
        with torch.enable_grad():
            cast = weight.to(dtype)
        self._casts[id(weight)] = (weakref.ref(weight), cast)
        return cast


def _is_cast(value: Any) -> bool:
    """Return whether the GPU's autocast applies to a value.

    Source:
        aten/src/ATen/autocast_mode.h, `is_eligible`: floating point, not double, on autocast's device.
    """
    is_floating = isinstance(value, torch.Tensor) and value.is_floating_point() and value.dtype != torch.float64
    return is_floating and is_on_gpu(value)


def _is_weight(tensor: torch.Tensor) -> bool:
    is_leaf = tensor.requires_grad and tensor.is_leaf
    return is_leaf and tensor.dtype == torch.float32 and not tensor._is_view()  # there is no public API


def _exceptions() -> dict[Any, Kernel]:
    """Return kernels that call the operators of the CPU's autocast without it if they have GPU tensors."""
    others = dict.fromkeys(_operators(_registered(NO_CPU_AUTOCAST)), torch.library.fallthrough_kernel)
    return others | {op: _on(NO_CPU_AUTOCAST, op, None) for op in _operators(_registered(_CPU_AUTOCAST))}


def _on(key: str, operator: Any, rule: Kernel | None) -> Kernel:
    """Return the kernel of an operator for a key: it applies a rule to GPU tensors, and nothing to host tensors.

    Args:
        key: the key.
        operator: the operator.
        rule: calls the operator. None: call it without the autocast of the CPU and that of the GPU.
    """
    below, below_all = keys_below(key), keys_below(_CPU_AUTOCAST)

    def kernel(keys: Any, *args: Any, **kwargs: Any) -> Any:
        if not any(map(is_on_gpu, _tensors((args, kwargs)))):
            return operator.redispatch(keys & below, *args, **kwargs)
        return operator.redispatch(keys & below_all, *args, **kwargs) if rule is None else rule(*args, **kwargs)

    return kernel


def _library(key: str, kernels: dict[Any, Kernel]) -> Any:
    """Register kernels for a key."""
    library: Any = torch.library.Library("aten", "IMPL", key)  # type: ignore[no-untyped-call]  # torch leaves it untyped
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns about every replaced kernel
        for operator, kernel in kernels.items():
            library.impl(operator, kernel, with_keyset=kernel is not torch.library.fallthrough_kernel)
    return library


def _banned(operator: Any) -> Kernel:
    del operator

    def rule(*_args: Any, **_kwargs: Any) -> Any:
        raise RuntimeError(_UNSAFE)

    return rule


def _below_autocast(operator: Any, args: Any, kwargs: Any) -> Any:
    """Call an operator below autocast."""
    with DisableAutocast():
        return operator(*args, **kwargs)


def _tensors(values: Any) -> list[torch.Tensor]:
    return [value for value in tree_leaves(values) if isinstance(value, torch.Tensor)]


def _operators(names: list[str]) -> list[Any]:
    """Return operators by the names of their registrations, without those that this version of torch lacks."""
    parts = [name.partition(".") for name in names]
    found = [getattr(getattr(torch.ops.aten, base, None), overload or "default", None) for base, _, overload in parts]
    return [operator for operator in found if operator is not None]


def _registered(key: str) -> list[str]:
    """Return the names of the operators that have a kernel for a key."""
    known = registrations_for_key(key)
    return [name.removeprefix("aten::") for name in known if name.startswith("aten::")]
