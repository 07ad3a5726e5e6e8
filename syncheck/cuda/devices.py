"""The GPUs of this machine, and the features for watching them that this torch lacks."""

import ctypes
import os
import sys
from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import Any

import torch
import torch.cuda._gpu_trace as gpu_trace

from syncheck.errors import BackendError
from syncheck.instrument.torch_internals import C

_c: Any = C
cuda: Any = torch.cuda
"""torch.cuda, typed as Any because its annotations are incomplete."""
current_device: Callable[[], int] = getattr(_c, "_cuda_getDevice", lambda: 0)
raw_stream: Callable[[int], int] = getattr(_c, "_cuda_getCurrentRawStream", lambda device: 0)  # noqa: ARG005

_NON_BLOCKING = 1
_NVML_VARIABLE = "PYTORCH_NVML_BASED_CUDA_CHECK"
REGISTRIES = (
    "EventCreation",
    "EventDeletion",
    "EventRecord",
    "EventWait",
    "MemoryAllocation",
    "MemoryDeallocation",
    "StreamCreation",
    "DeviceSynchronization",
    "StreamSynchronization",
    "EventSynchronization",
)
"""torch's callback registries. Source: torch/cuda/_gpu_trace.py."""


def check_sanitizer() -> None:
    """Raise if torch's own sanitizer is active.

    Raises:
        BackendError: it is active, and would raise at the operators that it reports before they can be logged.
    """
    module = sys.modules.get("torch.cuda._sanitizer")
    if module is not None and module.cuda_sanitizer.enabled:
        raise BackendError(
            "torch's own CUDA sanitizer is active, and both cannot check the same program",
            "unset TORCH_CUDA_SANITIZER, or do not call enable_cuda_sanitizer()",
        )


def describe() -> str:
    """Describe the GPUs, as in "2 GPUs" or "1 GPU (ROCm 6.4)".

    Raises:
        BackendError: there is no GPU that torch can use.
    """
    if torch.version.cuda is None and rocm() is None:
        raise BackendError(
            "this version of torch was built without CUDA",
            "install a CUDA build of torch, or use simulated GPUs: --backend sim",
        )
    if not is_available():
        smi, variable = ("rocm-smi", "HIP") if rocm() else ("nvidia-smi", "CUDA")
        raise BackendError(
            f"torch finds no {'ROCm' if rocm() else 'CUDA'} device: there is no driver, or no GPU is visible",
            f"check {smi} and {variable}_VISIBLE_DEVICES, or use simulated GPUs: --backend sim",
        )
    count = torch.cuda.device_count()
    return f"{count} GPU{'s' if count != 1 else ''}" + (f" (ROCm {rocm()})" if rocm() else "")


def rocm() -> str | None:
    """Return the ROCm version that torch is built for, where `torch.cuda` means AMD GPUs; None for other builds.

    Source:
        PyTorch notes, "HIP (ROCm) semantics": the interfaces of `torch.cuda` are reused.
    """
    return torch.version.hip


def is_available() -> bool:
    """Return whether torch can use a GPU, without initializing CUDA, so that the program can still fork.

    Source:
        torch/cuda/__init__.py, `_nvml_based_avail`.
    """
    before = os.environ.get(_NVML_VARIABLE)
    os.environ[_NVML_VARIABLE] = "1"
    try:
        return torch.cuda.is_available()
    finally:
        if before is None:
            del os.environ[_NVML_VARIABLE]
        else:
            os.environ[_NVML_VARIABLE] = before


def missing() -> list[str]:
    """Return the features of torch that syncheck uses and this torch lacks, each with the consequence."""
    lacks = []
    if not hasattr(_c, "_cuda_getCurrentRawStream"):
        lacks.append("torch._C._cuda_getCurrentRawStream: the streams of operators cannot be determined")
    lacks += [
        f"torch.cuda._gpu_trace.{name}Callbacks: such calls are seen only if they come from Python"
        for name in REGISTRIES
        if not hasattr(gpu_trace, f"{name}Callbacks")
    ]
    if _trace_switch() is None:
        lacks.append("the GPU trace switch: an exception that passes an unnamed GPU tensor becomes a SystemError")
    if driver() is None:
        lacks.append(
            "the CUDA driver library: all external streams count as non-blocking, and --times, --html and overlap "
            "measure nothing"
        )
    return lacks


@cache
def driver() -> Any:
    """Return the CUDA driver library; None if it cannot be loaded."""
    for name in ("libcuda.so.1", "nvcuda.dll"):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def is_blocking(handle: int) -> bool:
    """Return whether a stream is implicitly ordered with the legacy default stream of its device.

    Source:
        CUDA Driver API, cuStreamGetFlags: CU_STREAM_NON_BLOCKING is 1.
    """
    library = driver()
    if library is None:
        return False
    flags = ctypes.c_uint(_NON_BLOCKING)
    if library.cuStreamGetFlags(ctypes.c_void_p(handle), ctypes.byref(flags)):
        return False
    return not flags.value & _NON_BLOCKING


class NoSwitch:
    """A switch without effect, for when torch's callbacks must not be disabled, or cannot be."""

    value = False


@cache
def _trace_switch() -> Any:
    """Return torch's flag "a callback is registered", which torch never clears; None if it is not exported.

    Source:
        c10/core/impl/GPUTrace.h: `static bool haveState`, read by every `get_trace()`.
    """
    libraries = (None, str(Path(torch.__file__).parent / "lib" / "libc10.so"))
    for library in libraries:
        try:
            return ctypes.c_bool.in_dll(ctypes.CDLL(library), "_ZN3c104impl8GPUTrace9haveStateE")
        except (ValueError, OSError, TypeError):  # TypeError: Windows has no library handle for the whole process
            continue
    return None


def start_trace() -> Any:
    """Activate torch's GPU trace; return its switch, turned off, or one without effect if others are registered."""
    _c._activate_gpu_trace()
    switch = _trace_switch()
    if switch is None or any(getattr(gpu_trace, f"{name}Callbacks").callback_list for name in REGISTRIES):
        return NoSwitch()
    switch.value = False
    _reactivate_on_demand()
    return switch


def _reactivate_on_demand() -> None:
    """Make `torch._C._activate_gpu_trace` set torch's flag whenever it is called, also after the check.

    torch acts on the first call only. Once a check has made that call and lowered the flag, torch's own sanitizer
    would receive no callbacks for the rest of the process.

    Source:
        c10/core/impl/GPUTrace.cpp, `set_trace`: `c10::call_once`; torch/cuda/_sanitizer.py, `CUDASanitizer.enable`.
    """
    original = _c._activate_gpu_trace
    if hasattr(original, "__wrapped__"):
        return

    @wraps(original)
    def activate() -> None:
        original()
        _trace_switch().value = True

    _c._activate_gpu_trace = activate


def milliseconds(start: int, end: int) -> float | None:
    """Return the time between two recorded events, given by handle; None if they are not complete.

    Source:
        CUDA Driver API, cuEventElapsedTime.
    """
    elapsed = ctypes.c_float()
    library = driver()
    failed = library is None or library.cuEventElapsedTime(
        ctypes.byref(elapsed), ctypes.c_void_p(start), ctypes.c_void_p(end)
    )
    return None if failed else elapsed.value
