"""Which kind of GPUs is simulated: those of `torch.cuda`, or of another module of torch with the same interface."""

from types import ModuleType
from typing import Any, NamedTuple

import torch


class DeviceKind(NamedTuple):
    """A kind of GPUs.

    Attributes:
        name: as in `torch.device(name)`; the module of torch has this name, too.
        number: of the device type, c10/core/DeviceType.h.
        title: as torch's errors have it.
        handle: what the handle of a stream is called.
        communication: the name of its backend of `torch.distributed`.
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
    """The kind of this process: there is one, as torch has one accelerator."""

    kind = CUDA


def choose(name: str) -> None:
    """Simulate another kind of GPUs from now on."""
    _Chosen.kind = KINDS[name]


def simulated() -> DeviceKind:
    """Return the kind of GPUs that is simulated."""
    return _Chosen.kind


def gpu(index: int | None = None) -> torch.device:
    """Return a simulated GPU as torch names it; the current one without an index."""
    name = _Chosen.kind.name
    return torch.device(name) if index is None else torch.device(name, index)


def is_gpu(device: torch.device) -> bool:
    """Return whether a device is a simulated GPU."""
    return device.type == _Chosen.kind.name


def is_on_gpu(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is on a simulated GPU."""
    return tensor.device.type == _Chosen.kind.name


def module() -> Any:
    """Return the module of torch for these GPUs: `torch.cuda`, `torch.xpu`."""
    found: ModuleType = getattr(torch, _Chosen.kind.name)
    return found
