"""What the simulator raises inside the user's program: torch's own errors, and "this is not simulated"."""

from collections.abc import Callable
from typing import Any

import torch


class NotSimulatedError(NotImplementedError):
    """The program uses something that the simulator does not have."""

    def __init__(self, what: str, why: str = "") -> None:
        reason = f": {why}" if why else ""
        super().__init__(
            f"{what} is not simulated{reason}. Leave it out under `torch.cuda.get_device_name() == 'Simulated GPU'`, "
            "or check this program on real GPUs."
        )


def refuse(name: str) -> Callable[..., Any]:
    """Return a function that says that it is not simulated."""

    def refused(*_: Any, **__: Any) -> Any:
        raise NotSimulatedError(name)

    refused.__name__ = name.rpartition(".")[2]
    return refused


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
    """Return torch's error for an index on another device than the indexed tensor.

    Source:
        aten/src/ATen/native/TensorAdvancedIndexing.cpp and IndexingUtils.h.
    """
    return RuntimeError(f"indices should be either on cpu or on the same device as the indexed tensor ({device})")


def out_of_memory(device: int, n_bytes: int) -> torch.OutOfMemoryError:
    """Return torch's error for memory that a device does not have.

    Source:
        c10/cuda/CUDACachingAllocator.cpp, `malloc`.
    """
    return torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {n_bytes} bytes. GPU {device} is simulated.")


def cuda_error(text: str) -> RuntimeError:
    """Return the error that torch raises for a failed CUDA call.

    Source:
        torch.AcceleratorError, a RuntimeError, since torch 2.8; c10/cuda/CUDAException.cpp.
    """
    kind = getattr(torch, "AcceleratorError", RuntimeError)
    message = f"CUDA error: {text}"
    try:
        error = kind(message)
    except TypeError:
        error = RuntimeError(message)
    assert isinstance(error, RuntimeError)
    return error
