"""Exceptions that the simulator raises in the user's program: torch's own errors and `NotSimulatedError`."""

from collections.abc import Callable
from typing import Any

import torch

from syncheck.sim.device_kind import simulated

_EXABYTE = 1 << 60


def on_not_simulated(what: str) -> None:
    """Note that the program has reached something that is not simulated. A run replaces this function."""


class NotSimulatedError(NotImplementedError):
    """The program uses something that is not simulated. The report says so, even if the program handles the error."""

    def __init__(self, what: str, why: str = "") -> None:
        on_not_simulated(what)
        reason = f": {why}" if why else ""
        super().__init__(
            f"{what} is not simulated{reason}. Skip it if "
            f"`torch.{simulated().name}.get_device_name() == 'Simulated GPU'`, or check this program on real GPUs."
        )


def not_simulated(name: str) -> Callable[..., Any]:
    """Return a function that raises NotSimulatedError."""

    def not_simulated_call(*_: Any, **__: Any) -> Any:
        raise NotSimulatedError(name)

    not_simulated_call.__name__ = name.rpartition(".")[2]
    return not_simulated_call


def mixed_devices(first: str, second: str) -> RuntimeError:
    """Return torch's error for operands on different devices.

    Source:
        aten/src/ATen/TensorIterator.cpp, `compute_types`: "Expected all tensors to be on the same device".
    """
    first, second = sorted((first, second), reverse=second == "cpu")
    return RuntimeError(
        f"Expected all tensors to be on the same device, but found at least two devices, {first} and {second}!"
    )


def misplaced_index(device: str) -> RuntimeError:
    """Return torch's error for an index on a different device from the indexed tensor.

    Source:
        aten/src/ATen/native/TensorAdvancedIndexing.cpp and IndexingUtils.h.
    """
    return RuntimeError(f"indices should be either on cpu or on the same device as the indexed tensor ({device})")


def out_of_memory(device: int, n_bytes: int, in_use: int, total: int) -> torch.OutOfMemoryError:
    """Return torch's error for an allocation that exceeds a device's memory.

    Source:
        c10/cuda/CUDACachingAllocator.cpp, `malloc` and `format_size`.
    """
    if n_bytes >= _EXABYTE:
        return torch.OutOfMemoryError(f"{simulated().title} out of memory. Tried to allocate more than 1EB memory.")
    return torch.OutOfMemoryError(
        f"{simulated().title} out of memory. Tried to allocate {_size(n_bytes)}. GPU {device} has a total capacity of "
        f"{_size(total)} of which {_size(total - in_use)} is free. Of the allocated memory {_size(in_use)} is "
        "allocated by PyTorch. This GPU is simulated and limited to the host's memory."
    )


def _size(n_bytes: int) -> str:
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if n_bytes > unit:
            return f"{n_bytes / unit:.2f} {name}"
    return f"{n_bytes} bytes"


def cuda_error(text: str) -> RuntimeError:
    """Return the error that torch raises for a failed CUDA call.

    Source:
        torch.AcceleratorError, a RuntimeError, since torch 2.8; c10/cuda/CUDAException.cpp.
    """
    error_class = getattr(torch, "AcceleratorError", RuntimeError)
    message = f"{simulated().title} error: {text}"
    try:
        error = error_class(message)
    except TypeError:
        error = RuntimeError(message)
    assert isinstance(error, RuntimeError)
    return error
