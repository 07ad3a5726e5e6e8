"""torch features related to CUDA: compilation, profiling, NVTX, and C functions that only a CUDA build has."""

from collections.abc import Callable
from functools import wraps
from types import SimpleNamespace
from typing import Any

import torch
import torch.cuda.nccl
import torch.cuda.nvtx
import torch.profiler

from syncheck.instrument.methods import overridable
from syncheck.instrument.patching import Patches
from syncheck.instrument.torch_internals import C
from syncheck.sim.device_kind import is_on_gpu, simulated
from syncheck.sim.errors import not_simulated
from syncheck.sim.fake_gradients import install_fake_gradients
from syncheck.sim.tuning import WITHOUT_EFFECT, install_tuning

_CUDA_ONLY = ("_cuda_", "_gds_", "_xpu_")
"""Prefixes of functions that only GPU builds of torch have."""
EAGER = "torch.compile ran eagerly, at eager speed, so that each operator could be checked"


def install_unsupported(note: Callable[[str], None], patches: Patches) -> None:
    """Install all replacements."""
    _install_compile(note, patches)
    _install_profiler(patches)
    _install_nvtx(patches)
    _install_ctc_loss(patches)
    _install_one_hot(patches)
    install_fake_gradients(patches)
    install_tuning(patches)
    patches.set(C, "__getattr__", _missing_function)


def hide_cuda(patches: Patches) -> None:
    """Make a CUDA build of torch behave like a CPU build, so that a program takes the same path under both.

    Its functions for real GPUs would look for a driver, or for kernels that virtual GPUs lack.
    """
    for name in [name for name in vars(C) if name.startswith(_CUDA_ONLY)]:
        patches.remove(C, name)
    patches.set(C, "_has_cudnn", False)
    patches.set(torch.backends.cudnn, "is_acceptable", lambda tensor: False)
    patches.set(torch.cuda.nccl, "is_available", lambda tensors: False)


def _install_ctc_loss(patches: Patches) -> None:
    """Pass lengths on the CPU as numbers, as torch does if no dispatch mode is active.

    Source:
        aten/src/ATen/native/LossCTC.cpp, `ctc_loss`: `areAnyTensorSubclassLike`.
    """
    original = torch.ctc_loss

    def ctc_loss(
        log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, *args: Any, **kwargs: Any
    ) -> Any:
        return original(log_probs, targets, _as_numbers(input_lengths), _as_numbers(target_lengths), *args, **kwargs)

    patches.set(torch, "ctc_loss", overridable(original, ctc_loss))


def _install_one_hot(patches: Patches) -> None:
    """Read no values if the number of classes is given: the host does so only for its own tensors.

    Source:
        aten/src/ATen/native/Onehot.cpp: on a GPU, the kernel checks the values.
    """
    original = torch.nn.functional.one_hot

    def one_hot(tensor: torch.Tensor, num_classes: int = -1) -> torch.Tensor:
        if num_classes < 1 or not is_on_gpu(tensor) or tensor.dtype != torch.int64:
            return original(tensor, num_classes)
        hot = torch.zeros(*tensor.shape, num_classes, dtype=tensor.dtype, device=tensor.device)
        return hot.scatter(-1, tensor.unsqueeze(-1), 1)  # `scatter_` would fail in `torch.vmap`

    patches.set(torch.nn.functional, "one_hot", overridable(original, one_hot))


def _as_numbers(lengths: Any) -> Any:
    if not isinstance(lengths, torch.Tensor) or not lengths.is_cpu or lengths.is_floating_point():
        return lengths
    return lengths.flatten().tolist()


def _missing_function(name: str) -> Any:
    """Return a replacement for a C function that only CUDA builds of torch have."""
    if name in WITHOUT_EFFECT:
        return lambda *args, **kwargs: WITHOUT_EFFECT[name]
    if name.startswith(_CUDA_ONLY):
        return not_simulated(f"torch._C.{name}()")
    raise AttributeError(f"module 'torch._C' has no attribute {name!r}")


def _install_compile(note: Callable[[str], None], patches: Patches) -> None:
    def compile_eagerly(model: Any = None, **kwargs: Any) -> Any:
        note(EAGER)
        if model is None:
            return lambda function: compile_eagerly(function, **kwargs)
        if isinstance(model, torch.nn.Module):
            from torch._dynamo.eval_frame import OptimizedModule  # noqa: PLC0415  slow import

            return OptimizedModule(model, lambda function: function)  # type: ignore[arg-type]  # does not compile
        return model

    def compile_module(module: Any, *args: Any, **kwargs: Any) -> None:
        del module, args, kwargs
        note(EAGER)

    patches.set(torch, "compile", compile_eagerly)
    patches.set(torch.nn.Module, "compile", compile_module)
    patches.set(torch.compiler, "reset", lambda: None)


def _install_profiler(patches: Patches) -> None:
    """Accept CUDA activities but ignore them, as there is no GPU to profile."""
    cuda = torch.profiler.ProfilerActivity.CUDA
    profile = torch.profiler.profiler._KinetoProfile  # the base of torch.profiler.profile
    original = profile.__init__

    @wraps(original)
    def initialize(self: Any, *, activities: Any = None, **kwargs: Any) -> None:
        remaining = None if activities is None else [a for a in activities if a != cuda]
        original(self, activities=remaining or [torch.profiler.ProfilerActivity.CPU], **kwargs)

    patches.set(profile, "__init__", initialize)
    old = torch.autograd.profiler.profile
    old_original = old.__init__

    @wraps(old_original)
    def initialize_old(
        self: Any, enabled: Any = 1, *, use_cuda: bool = False, use_device: Any = None, **kwargs: Any
    ) -> None:
        del use_cuda
        old_original(self, enabled, use_device=None if use_device == simulated().name else use_device, **kwargs)

    patches.set(old, "__init__", initialize_old)
    patches.set(torch.cuda.profiler, "start", lambda: None)
    patches.set(torch.cuda.profiler, "stop", lambda: None)


def _install_nvtx(patches: Patches) -> None:
    """Accept NVTX ranges, which have no effect on results."""
    silent: dict[str, Callable[..., Any]] = {
        name: lambda *args, **kwargs: 0
        for name in ("rangePushA", "rangePop", "rangeStartA", "rangeEnd", "markA", "deviceRangeStart", "deviceRangeEnd")
    }
    patches.set(torch.cuda.nvtx, "_nvtx", SimpleNamespace(**silent))
    emit: Any = torch.autograd.profiler.emit_nvtx
    patches.set(emit, "__enter__", lambda emitting: emitting if emitting.enabled else None)
    patches.set(emit, "__exit__", lambda emitting, *error: None)
