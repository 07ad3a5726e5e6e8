"""Settings that only make real GPUs faster. They are accepted but have no effect on virtual GPUs."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
import torch.backends.cuda
import torch.cuda.jiterator
import torch.cuda.memory
import torch.cuda.tunable

from syncheck.instrument.patching import Patches
from syncheck.instrument.torch_internals import C
from syncheck.sim.errors import not_simulated

WITHOUT_EFFECT: dict[str, Any] = {
    "_cuda_clearCublasWorkspaces": None,
    "_cuda_setCublasWorkspaceSize": None,
    "_cuda_setCublasLtWorkspaceSize": None,
    "_cuda_resetCublasWorkspaceSize": None,
    "_cuda_resetCublasLtWorkspaceSize": None,
    "_cuda_getCublasWorkspaceSize": 0,
    "_cuda_getCublasLtWorkspaceSize": 0,
    "_cuda_setMemoryMetadata": None,
    "_cuda_getMemoryMetadata": "",
    "_cuda_init": None,
    "_cuda_ipc_collect": None,
    "_cuda_getCompiledVersion": 12080,
    "_cuda_hasPrimaryContext": True,
    "_cuda_cudaCachingAllocator_is_enabled": True,
}
"""C functions that exist only in CUDA builds of torch and do not affect results -> the values they return.

Source:
    torch/csrc/cuda/Module.cpp.
"""
_TUNABLE: dict[str, Any] = {
    "enable": None, "is_enabled": False, "tuning_enable": None, "tuning_is_enabled": False,
    "record_untuned_enable": None, "record_untuned_is_enabled": False, "set_max_tuning_duration": None,
    "get_max_tuning_duration": 30, "set_max_tuning_iterations": None, "get_max_tuning_iterations": 100,
    "set_filename": None, "get_filename": "", "get_results": (), "get_validators": (), "read_file": False,
    "set_rotating_buffer_size": None, "get_rotating_buffer_size": -1, "set_numerical_check_tolerances": None,
}  # fmt: skip
"""Functions of `torch.cuda.tunable` -> the values they return. No kernel is tuned; the figures are the defaults."""


def install_tuning(patches: Patches) -> None:
    """Accept all tuning settings."""
    for name, answer in _TUNABLE.items():
        if hasattr(torch.cuda.tunable, name):
            patches.set(torch.cuda.tunable, name, _returning(answer))
    for name in set(torch.cuda.tunable.__all__) - _TUNABLE.keys():
        patches.set(torch.cuda.tunable, name, not_simulated(f"torch.cuda.tunable.{name}()"))
    for name in ("_accelerator_setAllocatorSettings", "_cuda_cudaCachingAllocator_set_allocator_settings"):
        if hasattr(C, name):
            patches.set(C, name, _returning(None))
    patches.set(torch.cuda.memory, "_set_allocator_settings", _returning(None))
    patches.set(torch.cuda.memory, "_record_memory_history", _returning(None))
    patches.set(torch.backends.cuda, "cufft_plan_cache", _PlanCache())
    for library in ("linalg", "blas"):
        _install_choice(library, patches)
    _install_attention(patches)


def _returning(answer: Any) -> Callable[..., Any]:
    return lambda *args, **kwargs: answer


def _install_choice(library: str, patches: Patches) -> None:
    """Store the library that a program prefers, because a CPU build of torch rejects libraries that it lacks."""
    setter, getter = f"_set_{library}_preferred_backend", f"_get_{library}_preferred_backend"
    if hasattr(C, setter) and hasattr(C, getter):
        chosen = SimpleNamespace(value=getattr(C, getter)())
        patches.set(C, setter, lambda backend: setattr(chosen, "value", backend))
        patches.set(C, getter, lambda: chosen.value)


def _install_attention(patches: Patches) -> None:
    """Substitute the math kernel for attention kernels that exist only on GPUs.

    Source:
        aten/src/ATen/native/transformers/sdp_utils_cpp.cpp, `select_sdp_backend_cpp`: only flash and math.
    """
    chosen = {name: bool(getattr(C, f"_get_{name}_sdp_enabled")()) for name in ("math", "flash", *_GPU_ONLY)}
    enable_math = C._set_sdp_use_math

    def setter(name: str, original: Callable[[bool], None]) -> Callable[[bool], None]:
        def use(enabled: bool) -> None:
            chosen[name] = enabled
            original(enabled)
            enable_math(chosen["math"] or any(chosen[kernel] for kernel in _GPU_ONLY))

        return use

    for name in chosen:
        patches.set(C, f"_set_sdp_use_{name}", setter(name, getattr(C, f"_set_sdp_use_{name}")))
    patches.set(C, "_get_math_sdp_enabled", lambda: chosen["math"])
    patches.on_undo(lambda: enable_math(chosen["math"]))


_GPU_ONLY = ("mem_efficient", "cudnn")
"""Kernels of `scaled_dot_product_attention` that do not exist on the CPU."""


class _PlanCache:
    """Replacement for `torch.backends.cuda.cufft_plan_cache`, for all devices. It is always empty."""

    size = 0
    max_size = 4096

    def clear(self) -> None:
        """Do nothing: there are no plans."""

    def __getitem__(self, device: Any) -> "_PlanCache":
        del device
        return self
