"""Fake tensors on a GPU that require a gradient. They are rejected, because a CPU build of torch would crash."""

from functools import wraps
from typing import Any

import torch
import torch.export
from torch._subclasses.fake_tensor import FakeTensor

from syncheck.instrument.patching import Patches
from syncheck.instrument.torch_internals import C
from syncheck.sim.device_kind import is_gpu, is_on_gpu
from syncheck.sim.errors import NotSimulatedError


def install_fake_gradients(patches: Patches) -> None:
    """Reject fake GPU tensors that require a gradient, because a CPU build of torch would crash at their first use.

    Source:
        torch/csrc/autograd/input_metadata.cpp queries the stream of their device;
        c10/core/impl/DeviceGuardImplInterface.h, `getDeviceGuardImpl`, throws where exceptions are not allowed.
    """
    getset: Any = C.TensorBase.requires_grad
    original_new, original_set = FakeTensor.__new__, torch.Tensor.requires_grad_

    def new(cls: Any, *args: Any, **kwargs: Any) -> Any:
        result = original_new(cls, *args, **kwargs)
        _check_fake(result, needs_gradient=getset.__get__(result))
        return result

    def set_requires_grad(tensor: Any, value: bool) -> None:
        _check_fake(tensor, needs_gradient=value)
        getset.__set__(tensor, value)

    def requires_grad_(tensor: Any, requires_grad: bool = True) -> Any:
        _check_fake(tensor, needs_gradient=requires_grad)
        return original_set(tensor, requires_grad)

    export = torch.export.export

    @wraps(export)
    def reject_or_export(mod: Any, *args: Any, **kwargs: Any) -> Any:
        for parameter in mod.parameters():  # check here: the compiler would catch a later error as its own
            if is_on_gpu(parameter) and parameter.requires_grad:
                raise _unsupported_gradient()
        return export(mod, *args, **kwargs)

    patches.set(torch.export, "export", reject_or_export)
    patches.set(FakeTensor, "__new__", staticmethod(new))
    patches.set(FakeTensor, "requires_grad", property(getset.__get__, set_requires_grad))
    patches.set(FakeTensor, "requires_grad_", requires_grad_)


def _check_fake(tensor: FakeTensor, *, needs_gradient: bool) -> None:
    if needs_gradient and is_gpu(tensor.fake_device):
        raise _unsupported_gradient()


def _unsupported_gradient() -> NotSimulatedError:
    return NotSimulatedError(
        "a fake GPU tensor that requires a gradient (torch.export and AOTAutograd create them)",
        "export or trace the model while it is on the CPU",
    )
