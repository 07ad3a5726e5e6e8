"""`torch.autocast("cuda")`: operators on virtual GPUs follow CUDA's lists of operators instead of the CPU's.

Source:
    aten/src/ATen/autocast_mode.h: AT_FORALL_LOWER_PRECISION_FP, AT_FORALL_FP32, AT_FORALL_FP32_SET_OPT_DTYPE,
    AT_FORALL_PROMOTE; autocast_mode.cpp for what each group does.
    aten/src/ATen/cudnn/AutocastRNN.cpp: recurrent networks compute in float16, whatever the lower precision is.
"""

import threading
import warnings
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.utils._pytree import tree_map

from syncheck.instrument.patching import Patches
from syncheck.instrument.torch_internals import DisableAutocast, registrations_for_key, schema_of
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
_KEY = "AutocastCPU"  # the dispatch key of the CPU tensors behind virtual GPU tensors
Kernel = Callable[..., Any]


class Autocast:
    """Implements CUDA's autocast on the CPU's dispatch key, for tensors of virtual devices."""

    def __init__(self, patches: Patches) -> None:
        self._patches = patches
        self._library: Any = None
        self._casts: dict[int, tuple[weakref.ref[torch.Tensor], torch.Tensor]] = {}
        self._registering = threading.Lock()

    def install(self) -> None:
        """Enable the CPU's key wherever autocast is enabled for the GPU."""
        autocast = torch.amp.autocast_mode.autocast
        enter, leave = autocast.__enter__, autocast.__exit__

        def enter_both(context: Any) -> Any:
            before = torch.is_autocast_enabled("cpu")
            result = enter(context)  # type: ignore[no-untyped-call]  # torch leaves it untyped
            if context.device == simulated().name:
                context.syncheck_before = before
                self._register()
                torch.set_autocast_enabled("cpu", torch.is_autocast_enabled(simulated().name) or before)
            return result

        def leave_both(context: Any, *error: Any) -> Any:
            result = leave(context, *error)
            if context.device == simulated().name:
                torch.set_autocast_enabled("cpu", context.syncheck_before)
            return result

        self._patches.set(autocast, "__enter__", enter_both)
        self._patches.set(autocast, "__exit__", leave_both)
        clear = torch.clear_autocast_cache

        def clear_both() -> None:
            clear()
            self._casts.clear()

        self._patches.set(torch, "clear_autocast_cache", clear_both)
        self._patches.on_undo(self._unregister)

    # -- kernels

    def _register(self) -> None:
        with self._registering:
            if self._library is None:
                self._register_all()

    def _register_all(self) -> None:
        self._library = torch.library.Library("aten", "IMPL", _KEY)  # type: ignore[no-untyped-call]  # torch leaves it untyped
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns about every replaced kernel
            for name, kernel in self._kernels().items():
                self._library.impl(name, kernel)

    def _unregister(self) -> None:
        if self._library is not None:
            self._library._destroy()  # there is no public API
            self._library = None

    def _kernels(self) -> dict[str, Kernel]:
        kernels: dict[str, Kernel] = {}
        for names, make in (
            (_cpu_only(), _fall_through),
            (_LOWER, partial(self._casting, None)),
            (_FULL, partial(self._casting, torch.float32)),
            (_RECURRENT, partial(self._casting, torch.float16)),
            (_FULL_RESULT, self._full_result),
            (_WIDEST, self._widest),
            (_BANNED, self._banned),
        ):
            kernels |= {name: make(operator) for name in names if (operator := _operator(name)) is not None}
        return kernels

    def _casting(self, dtype: torch.dtype | None, operator: Any) -> Kernel:
        def kernel(*args: Any, **kwargs: Any) -> Any:
            return _below_autocast(operator, *self._cast((args, kwargs), dtype))

        return kernel

    def _full_result(self, operator: Any) -> Kernel:
        names = [argument.name for argument in schema_of(operator).arguments if not argument.kwarg_only]
        position = names.index("dtype") if "dtype" in names else len(names)

        def kernel(*args: Any, **kwargs: Any) -> Any:
            given = args[position] if position < len(args) else kwargs.get("dtype")
            if given is None and self._target_dtype(args[0], torch.float32) is not None:
                args, kwargs = args[:position], {**kwargs, "dtype": torch.float32}
            return _below_autocast(operator, args, kwargs)

        return kernel

    def _widest(self, operator: Any) -> Kernel:
        def kernel(*args: Any, **kwargs: Any) -> Any:
            dtypes = {value.dtype for value in _tensors((args, kwargs)) if self._target_dtype(value, torch.float32)}
            widest = torch.float32 if torch.float32 in dtypes else next(iter(dtypes), None)
            return _below_autocast(
                operator, *(self._cast((args, kwargs), widest) if len(dtypes) > 1 else (args, kwargs))
            )

        return kernel

    def _banned(self, operator: Any) -> Kernel:
        def kernel(*args: Any, **kwargs: Any) -> Any:
            if torch.is_autocast_enabled(simulated().name) and any(
                is_on_gpu(tensor) for tensor in _tensors((args, kwargs))
            ):
                raise RuntimeError(_UNSAFE)
            return _below_autocast(operator, args, kwargs)

        return kernel

    def _cast(self, values: Any, dtype: torch.dtype | None) -> Any:
        """Cast the tensors that autocast applies to. None: to the lower precision of their device's autocast."""

        def cast(value: Any) -> Any:
            wanted = self._target_dtype(value, dtype)
            if wanted is None or value.dtype == wanted:
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

    def _target_dtype(self, value: Any, dtype: torch.dtype | None) -> torch.dtype | None:
        """Return the dtype to cast a value to, or None if autocast does not apply to it.

        Source:
            aten/src/ATen/autocast_mode.h, `is_eligible`: floating point, not double, on autocast's device.
        """
        if not isinstance(value, torch.Tensor) or not value.is_floating_point() or value.dtype == torch.float64:
            return None
        name = simulated().name if is_on_gpu(value) else "cpu"
        if not self._is_enabled(name):
            return None
        return dtype or torch.get_autocast_dtype(name)

    def _is_enabled(self, name: str) -> bool:
        on_gpu = torch.is_autocast_enabled(simulated().name)
        return on_gpu if name == simulated().name else not on_gpu


def _is_weight(tensor: torch.Tensor) -> bool:
    is_leaf = tensor.requires_grad and tensor.is_leaf
    return is_leaf and tensor.dtype == torch.float32 and not tensor._is_view()  # there is no public API


def _fall_through(operator: Any) -> Kernel:
    """Return a fallthrough kernel, with which autocast applies only to the operators inside."""
    del operator
    return torch.library.fallthrough_kernel


def _below_autocast(operator: Any, args: Any, kwargs: Any) -> Any:
    """Call an operator below autocast."""
    with DisableAutocast():
        return operator(*args, **kwargs)


def _tensors(values: Any) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    tree_map(lambda value: found.append(value) if isinstance(value, torch.Tensor) else None, values)
    return found


def _operator(name: str) -> Any:
    """Return an operator by the name of its registration, or None if this version of torch lacks it."""
    base, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, base, None), overload or "default", None)


def _cpu_only() -> list[str]:
    """Return the operators that the CPU's autocast casts, some of which CUDA's does not."""
    known = registrations_for_key(_KEY)
    return [name.removeprefix("aten::") for name in known if name.startswith("aten::")]
