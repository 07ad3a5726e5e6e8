"""The simulated kind of GPU: that of `torch.cuda` or of another torch module with the same interface."""

from types import ModuleType
from typing import Any, NamedTuple

import torch


class DeviceKind(NamedTuple):
    """A kind of GPU.

    Attributes:
        name: the name in `torch.device(name)`, and of the torch module.
        number: the number of the device type in c10/core/DeviceType.h.
        title: the name in torch's error messages.
        handle: the name of a stream's handle.
        communication: the name of its `torch.distributed` backend.
    """

    name: str
    number: int
    title: str
    handle: str
    communication: str


CUDA = DeviceKind("cuda", 1, "CUDA", "cuda_stream", "nccl")
XPU = DeviceKind("xpu", 12, "XPU", "sycl_queue", "xccl")
KINDS = {kind.name: kind for kind in (CUDA, XPU)}


class _Chosen:
    """Holder of the process-wide kind. There is only one, as torch has only one accelerator."""

    kind = CUDA


def choose(name: str) -> None:
    """Simulate a kind of GPU from now on."""
    _Chosen.kind = KINDS[name]


def simulated() -> DeviceKind:
    """Return the simulated kind of GPU."""
    return _Chosen.kind


def gpu(index: int | None = None) -> torch.device:
    """Return the torch device of a simulated GPU, or of the current one without an index."""
    name = _Chosen.kind.name
    return torch.device(name) if index is None else torch.device(name, index)


def is_gpu(device: torch.device) -> bool:
    """Return whether a device is a simulated GPU."""
    return device.type == _Chosen.kind.name


def is_on_gpu(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is on a simulated GPU."""
    return tensor.device.type == _Chosen.kind.name


def module() -> Any:
    """Return torch's module for the simulated GPUs: `torch.cuda` or `torch.xpu`."""
    found: ModuleType = getattr(torch, _Chosen.kind.name)
    return found


def explicit_index(device: Any) -> int | None:
    """Return the index in a device description, or None if it has none."""
    if device is None:
        return None
    if isinstance(device, int):
        return int(device)
    if isinstance(device, torch.device | str):
        found = torch.device(device)
        if not is_gpu(found):
            raise ValueError(f"Expected a {simulated().name} device, but got: {found}")
        return found.index
    return getattr(device, "index", None) if hasattr(device, "index") else getattr(device, "idx", None)
