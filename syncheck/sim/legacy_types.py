"""`torch.cuda.FloatTensor` and similar legacy types: classes that create and recognize tensors."""

from typing import Any

import torch

from syncheck.instrument.methods import replace_method
from syncheck.instrument.patching import Patches
from syncheck.sim.device_kind import gpu, is_on_gpu, module, simulated
from syncheck.sim.runtime import active

_NAMES = {
    "FloatTensor": torch.float32,
    "DoubleTensor": torch.float64,
    "HalfTensor": torch.float16,
    "BFloat16Tensor": torch.bfloat16,
    "ByteTensor": torch.uint8,
    "CharTensor": torch.int8,
    "ShortTensor": torch.int16,
    "IntTensor": torch.int32,
    "LongTensor": torch.int64,
    "BoolTensor": torch.bool,
}


def is_size(args: tuple[Any, ...]) -> bool:
    """Return whether arguments of a legacy constructor are a size: then it only allocates memory."""
    is_given = len(args) == 1 and isinstance(args[0], torch.Size)
    return is_given or (bool(args) and all(type(arg) is int for arg in args))


class _LegacyType(type):
    """Metaclass of the legacy tensor types."""

    dtype: torch.dtype
    is_cuda: bool
    original: Any

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, torch.Tensor) and value.dtype == cls.dtype and is_on_gpu(value) == cls.is_cuda

    def __call__(cls, *args: Any, **kwargs: Any) -> torch.Tensor:
        if not cls.is_cuda:
            return cls.original(*args, **kwargs)  # type: ignore[no-any-return]  # torch's own type
        device = kwargs.pop("device", None)
        if is_size(args) and not kwargs:
            return torch.empty(*args, dtype=cls.dtype, device=gpu(active().index_of(device)))
        with torch.device("cpu"):
            result: torch.Tensor = cls.original(*args, **kwargs)
        return result.to(gpu(active().index_of(device)))


def install_legacy_types(patches: Patches) -> None:
    """Replace the legacy types, `Tensor.type` and `torch.set_default_tensor_type`."""
    for name, dtype in _NAMES.items():
        original = getattr(torch, name)
        for owner, is_cuda in ((torch, False), (module(), True)):
            members = {"dtype": dtype, "is_cuda": is_cuda, "original": original, "__module__": owner.__name__}
            patches.set(owner, name, _LegacyType(name, (), members))
    replace_method(patches, "type", lambda original: lambda t, *a, **k: _type(original, t, *a, **k))
    set_default = torch.set_default_tensor_type

    def set_default_tensor_type(t: Any) -> None:
        name = t if isinstance(t, str) else f"{t.__module__}.{t.__name__}"
        kind = getattr(torch, name.rpartition(".")[2])
        if name.startswith(f"torch.{simulated().name}."):
            torch.set_default_dtype(kind.dtype)
            torch.set_default_device(gpu())
            return
        torch.set_default_device(None)
        set_default(getattr(kind, "original", kind))

    patches.set(torch, "set_default_tensor_type", set_default_tensor_type)


def _type(original: Any, tensor: torch.Tensor, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
    """Simulate `Tensor.type`: return the name of the legacy type, or convert to one."""
    if dtype is None:
        name = original(tensor)
        return name.replace("torch.", f"torch.{simulated().name}.", 1) if is_on_gpu(tensor) else name
    if isinstance(dtype, torch.dtype):
        return tensor.to(dtype, non_blocking=non_blocking, **kwargs)
    name = dtype if isinstance(dtype, str) else f"{dtype.__module__}.{dtype.__name__}"
    plain = name.replace(f"torch.{simulated().name}.", "torch.", 1)
    kind = getattr(getattr(torch, plain.rpartition(".")[2], None), "dtype", None)
    if not isinstance(kind, torch.dtype):
        return original(tensor, dtype, **kwargs)  # raises torch's own error
    is_there = is_on_gpu(tensor) == (plain != name)  # types have no device index: a tensor on any GPU stays there
    moved = tensor if is_there else tensor.to(gpu(), non_blocking=non_blocking) if plain != name else tensor.cpu()
    return moved.to(kind)
