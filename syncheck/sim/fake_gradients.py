"""Fake tensors on a GPU that require a gradient. They are rejected, because a CPU build of torch would crash.

Source:
    torch/csrc/autograd/input_metadata.cpp queries the stream of their device;
    c10/core/impl/DeviceGuardImplInterface.h, `getDeviceGuardImpl`, throws where exceptions are not allowed.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
import torch.export
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import passes

from syncheck.instrument.patching import Patches
from syncheck.instrument.plan import tensors_in
from syncheck.instrument.torch_internals import MODE_TENSOR_TYPES, C, schema_of
from syncheck.semantics.operators import ALLOCATING, SIZE_ONLY
from syncheck.sim.device_kind import is_gpu, is_on_gpu
from syncheck.sim.errors import NotSimulatedError

_WITHOUT_GRADIENT = ALLOCATING | SIZE_ONLY
"""Operators whose results have no gradient, whatever their arguments require."""


def install_fake_gradients(patches: Patches) -> None:
    """Reject fake GPU tensors that are made to require a gradient."""
    getset: Any = C.TensorBase.requires_grad
    original_new, original_set = FakeTensor.__new__, torch.Tensor.requires_grad_

    def new(cls: Any, *args: Any, **kwargs: Any) -> Any:
        result = original_new(cls, *args, **kwargs)
        _check(result, needs_gradient=getset.__get__(result))
        return result

    def set_requires_grad(tensor: Any, value: bool) -> None:
        _check(tensor, needs_gradient=value)
        getset.__set__(tensor, value)

    def requires_grad_(tensor: Any, requires_grad: bool = True) -> Any:
        _check(tensor, needs_gradient=requires_grad)
        return original_set(tensor, requires_grad)

    export = torch.export.export

    @wraps(export)
    def reject_or_export(mod: Any, *args: Any, **kwargs: Any) -> Any:
        for parameter in mod.parameters():  # check here: the compiler would catch a later error as its own
            if is_on_gpu(parameter) and parameter.requires_grad:
                raise _unsupported_gradient()
        return export(mod, *args, **kwargs)

    move = passes.move_to_device_pass  # moves fake tensors that describe the program's values, too
    patches.set(passes, "move_to_device_pass", torch.no_grad()(move))
    patches.set(torch.export, "export", reject_or_export)
    patches.set(FakeTensor, "__new__", staticmethod(new))
    patches.set(FakeTensor, "requires_grad", property(getset.__get__, set_requires_grad))
    patches.set(FakeTensor, "requires_grad_", requires_grad_)


def _check(tensor: FakeTensor, *, needs_gradient: bool) -> None:
    if needs_gradient and is_gpu(tensor.fake_device):
        raise _unsupported_gradient()


def run(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run an operator on tensors without memory, or on others that are traced.

    Raises:
        NotSimulatedError: a result without memory is on a GPU and would require a gradient, that of a host tensor.
    """
    result = func(*args, **kwargs)
    if torch.is_grad_enabled() and schema_of(func).name.partition("::")[2] not in _WITHOUT_GRADIENT:
        needs_gradient = any(tensor.requires_grad for tensor in tensors_in((args, *kwargs.values())))
        if needs_gradient and any(map(_is_differentiable, tensors_in(result))):
            raise _unsupported_gradient()
    return result


def _is_differentiable(tensor: torch.Tensor) -> bool:
    is_fake = isinstance(tensor, MODE_TENSOR_TYPES) and is_on_gpu(tensor)
    return is_fake and (tensor.is_floating_point() or tensor.is_complex())


def created_by(create: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return the tensor that a function of torch creates. Its C++ code sets what the program asks for: a gradient.

    Raises:
        NotSimulatedError: the tensor is a fake one on a GPU and requires a gradient.
    """
    made = create(*args, **kwargs)
    if kwargs.get("requires_grad") and isinstance(made, FakeTensor):
        _check(made, needs_gradient=True)
    return made


def _unsupported_gradient() -> NotSimulatedError:
    return NotSimulatedError(
        "a fake GPU tensor that requires a gradient (torch.export and AOTAutograd create them)",
        "export or trace the model while it is on the CPU, and move fake tensors under `torch.no_grad()`",
    )
