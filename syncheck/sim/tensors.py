"""`torch.Tensor` on virtual devices: a tensor's device, and moves between devices."""

from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd import forward_ad

from syncheck.instrument.methods import TensorProperty, overridable, replace_method, replace_property, without_overrides
from syncheck.instrument.patching import Patches
from syncheck.instrument.torch_internals import (
    NUMBERS,
    SPARSE,
    C,
    functorch,
    has_storage,
    nn_module,
    sparse_parts,
    storage_key_of,
)
from syncheck.semantics.copies import HOST_DEVICE
from syncheck.sim import fake_tensors
from syncheck.sim.copies import Copies
from syncheck.sim.device_kind import gpu, is_gpu, simulated
from syncheck.sim.moved_gradients import device_copy, pinned_copy, returning_gradient
from syncheck.sim.placement import raw_device
from syncheck.sim.recorded import check_move
from syncheck.sim.runtime import Runtime

_WRAPPED = "_syncheck_device"
"""Attribute in which a tensor with inner tensors stores the virtual device that it was created for."""
_PLAIN = frozenset({torch.Tensor, torch.nn.Parameter})


class TensorShim:
    """Replaces the members of torch.Tensor that depend on devices."""

    def __init__(self, runtime: Runtime, copies: Copies, patches: Patches) -> None:
        self.runtime = runtime
        self.copies = copies
        self.memory = runtime.memory
        self._tags = runtime.memory.tags
        self._patches = patches
        self._raw_to: Any = torch.Tensor.to
        self._raw_index: Any = torch.Tensor.get_device

    def install(self) -> None:
        """Install all replacements."""
        self._install_properties()
        self._install_moves()
        fake_tensors.install(self._patches)

    # -- the device of a tensor

    def device(self, tensor: torch.Tensor) -> torch.device:
        """Return a tensor's virtual device, or torch's own answer if it has none."""
        found: Any = raw_device(tensor)
        if type(tensor) in _PLAIN and found.type == "cpu" and has_storage(tensor):
            tag = self._tags.get(storage_key_of(tensor))
            if tag is not None and tag.device != HOST_DEVICE:
                return self.runtime.torch_devices[tag.device]
        if not isinstance(found, torch.device) or found.type != "cpu":  # a subclass may return anything
            return found  # type: ignore[no-any-return]  # see above
        with without_overrides(tensor):
            return self._simulated_device(tensor, found)

    def _simulated_device(self, tensor: torch.Tensor, found: torch.device) -> torch.device:
        index = self.memory.device(tensor)
        if index == HOST_DEVICE:
            wrapped: torch.device | None = tensor.__dict__.get(_WRAPPED)
            return self._device_of_part(tensor, found) if wrapped is None else wrapped
        return self.runtime.torch_devices[index]

    def index(self, tensor: torch.Tensor) -> int:
        """Return the index of a tensor's virtual GPU, or HOST_DEVICE for the host."""
        index = self.memory.device(tensor)
        if index == HOST_DEVICE and type(tensor) not in _PLAIN:
            found = self.device(tensor)
            return found.index if is_gpu(found) else HOST_DEVICE
        return index

    def _device_of_part(self, tensor: torch.Tensor, raw: torch.device) -> torch.device:
        """Return the device of a DTensor's local tensor, or torch's own answer for other tensors.

        Source:
            torch/csrc/autograd/python_variable.cpp, `_dtensor__new__`: C++ code gives it the device of its local
            tensor.
        """
        part = None if type(tensor) in _PLAIN else getattr(tensor, "_local_tensor", None)
        return self.device(part) if isinstance(part, torch.Tensor) else raw

    def _install_properties(self) -> None:
        patches, device = self._patches, self.device
        replace_property(patches, "device", device)
        replace_property(patches, f"is_{simulated().name}", lambda tensor: is_gpu(device(tensor)))
        replace_property(patches, "is_cpu", lambda tensor: device(tensor).type == "cpu")

        make: Any = torch.Tensor._make_wrapper_subclass  # creates tensors with inner tensors

        def make_wrapper(*args: Any, **kwargs: Any) -> Any:
            given = next((value for value in args if isinstance(value, torch.device)), kwargs.get("device"))
            wanted = torch.device(given or "cpu")
            if not is_gpu(wanted):
                return make(*args, **kwargs)
            raw = torch.device("cpu")  # the only real device
            if "device" in kwargs:
                kwargs = {**kwargs, "device": raw}
            made = make(*(raw if value is given else value for value in args), **kwargs)
            made.__dict__[_WRAPPED] = self.runtime.torch_devices[self.runtime.index_of(wanted)]
            return made

        patches.set(torch.Tensor, "_make_wrapper_subclass", staticmethod(make_wrapper))

        def get_device(input: torch.Tensor) -> int:  # noqa: A002  torch's name
            found = device(input)
            return found.index if is_gpu(found) else self._raw_index(input)

        grad: Any = C.TensorBase.grad

        def set_grad(tensor: torch.Tensor, value: Any) -> None:
            if isinstance(value, torch.Tensor):
                _check_gradient(device(tensor), device(value))
            grad.__set__(tensor, value)

        patches.set(torch.Tensor, "grad", TensorProperty(grad.__get__, set_grad, grad.__delete__).named("grad"))
        replace_method(patches, "get_device", lambda _: get_device)
        patches.set(torch, "get_device", overridable(torch.get_device, get_device))

    # -- moves

    def move(self, tensor: torch.Tensor, target: int, *, non_blocking: bool, copy: bool, **kwargs: Any) -> torch.Tensor:
        """Return a tensor on another device, with autograd, or the tensor itself if nothing changes."""
        if isinstance(tensor, FakeTensor) or fake_tensors.is_active():
            return self._move_fake(tensor, target, **kwargs)
        here = self.index(tensor)
        dtype = kwargs.get("dtype")
        if here == target:
            if dtype in {None, tensor.dtype} and not copy and _has_format(tensor, kwargs.get("memory_format")):
                return tensor
            return self._convert(tensor, copy=copy, **kwargs)
        if tensor.layout in SPARSE:
            return self._move_sparse(tensor, target, non_blocking=non_blocking, dtype=dtype)
        if is_differentiated(tensor):
            return device_copy(tensor, self, target, non_blocking=non_blocking, kwargs=kwargs)  # type: ignore[no-any-return]  # autograd's
        with C.DisableTorchFunctionSubclass():
            return self.copies.transfer(tensor, target, non_blocking=non_blocking, **kwargs)

    def _move_fake(self, tensor: torch.Tensor, target: int, **kwargs: Any) -> torch.Tensor:
        """Move a tensor without memory, which torch does itself."""
        if target == HOST_DEVICE and is_gpu(raw_device(tensor)):
            check_move()
        moved: torch.Tensor = self._raw_to(tensor, self.copies.device_at(target), **kwargs)
        return moved

    def _convert(self, tensor: torch.Tensor, *, copy: bool, **kwargs: Any) -> torch.Tensor:
        dtype = kwargs.get("dtype") or tensor.dtype
        converted: torch.Tensor = self._raw_to(tensor, dtype, copy=copy, memory_format=kwargs.get("memory_format"))
        return converted

    def _move_sparse(self, tensor: torch.Tensor, target: int, *, non_blocking: bool, dtype: Any) -> torch.Tensor:
        parts = sparse_parts(tensor)
        first, *rest, values = (self.move(part, target, non_blocking=non_blocking, copy=False) for part in parts)
        values = values if dtype is None else values.to(dtype)
        if tensor.layout is torch.sparse_coo:
            moved = torch.sparse_coo_tensor(first, values, tensor.shape)
            return moved._coalesced_(tensor.is_coalesced())
        return torch.sparse_compressed_tensor(first, rest[0], values, tensor.shape, layout=tensor.layout)

    def _install_moves(self) -> None:
        copies, index_of = self.copies, self.runtime.index_of

        def move_here(
            tensor: torch.Tensor, device: Any = None, non_blocking: Any = None, memory_format: Any = None
        ) -> torch.Tensor:
            kwargs = {} if memory_format is None else {"memory_format": memory_format}
            return self.move(tensor, index_of(device), non_blocking=bool(non_blocking), copy=False, **kwargs)

        def cpu(tensor: torch.Tensor, memory_format: Any = None) -> torch.Tensor:
            kwargs = {} if memory_format is None else {"memory_format": memory_format}
            return self.move(tensor, HOST_DEVICE, non_blocking=False, copy=False, **kwargs)

        replacements: dict[str, Callable[[Any], Any]] = {
            "to": lambda original: lambda tensor, *args, **kwargs: self.to(original, tensor, args, kwargs),
            simulated().name: lambda _: move_here,
            "cpu": lambda _: cpu,
            "type_as": lambda _: lambda tensor, other: tensor.to(other.device, other.dtype),
            "pin_memory": lambda _: lambda tensor, device=None: self.pin(tensor),
            "is_pinned": lambda _: lambda tensor, device=None: copies.is_pinned(tensor),
            "record_stream": lambda _: self.record_stream,
            "copy_": lambda original: lambda tensor, *args, **kwargs: self.copy_(original, tensor, *args, **kwargs),
            "__setitem__": lambda original: lambda tensor, index, value: self.set_item(original, tensor, index, value),
        }
        for name, make in replacements.items():
            replace_method(self._patches, name, make)
        lazy: Any = torch.nn.parameter.UninitializedTensorMixin  # type: ignore[attr-defined]  # torch does not export it
        allowed = [getattr(torch.Tensor, method.__name__, method) for method in lazy._allowed_methods]
        self._patches.set(lazy, "_allowed_methods", allowed)

    def pin(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a copy in pinned memory, with autograd, or the tensor itself if it is pinned."""
        if is_differentiated(tensor) and not self.copies.is_pinned(tensor):
            return pinned_copy(tensor, self)  # type: ignore[no-any-return]  # as above
        return self.copies.pin(tensor)

    def copy_(self, original: Any, target: torch.Tensor, src: Any, non_blocking: bool = False) -> torch.Tensor:
        """Simulate `Tensor.copy_`."""
        return original(target, self._copy_value(target, src), non_blocking)  # type: ignore[no-any-return]  # torch's own method

    def set_item(self, original: Any, target: torch.Tensor, index: Any, value: Any) -> None:
        """Simulate `target[index] = value`."""
        original(target, index, self._copy_value(target, value))

    def _copy_value(self, target: torch.Tensor, source: Any) -> Any:
        """Return the value to copy into a tensor. Across devices, wrap it so that its gradient is sent back."""
        if not isinstance(source, torch.Tensor) or not is_differentiated(source):
            return source
        if self.index(target) == self.index(source):
            return source
        if isinstance(source, FakeTensor) or source.layout in SPARSE:
            return self.move(source, self.index(target), non_blocking=False, copy=False)
        return returning_gradient(source, self)

    def to(self, original: Any, tensor: torch.Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Simulate `Tensor.to` in all its forms."""
        device, options = _parse_to(args, kwargs)
        if raw_device(tensor).type != "cpu" or (device is not None and device.type not in {"cpu", simulated().name}):
            return self._to_other(original, tensor, device, options)
        here = self.index(tensor)
        target = here if device is None else self.copies.index_of(device)
        if target == here:
            return original(tensor, **{"dtype": tensor.dtype, **options})
        options = {"non_blocking": False, "copy": False, **options}
        return self.move(tensor, target, **options)

    def _to_other(self, original: Any, tensor: torch.Tensor, device: Any, options: dict[str, Any]) -> Any:
        """Move from or to a device that is not simulated. torch itself handles "meta", and GPUs without memory."""
        if device is not None and is_gpu(device) and is_gpu(raw_device(tensor)):
            return self._move_fake(tensor, self.copies.index_of(device), **options)
        if device is None or not is_gpu(device):
            wanted = {} if device is None else {"device": device}
            return original(tensor, **wanted, **options) if wanted or options else tensor
        return original(tensor, device="cpu", **options)  # raises, as torch does for "meta"

    def record_stream(self, tensor: torch.Tensor, s: Any) -> None:
        """Simulate `Tensor.record_stream`."""
        runtime = self.runtime
        runtime.enter()
        tag = self.memory.of(tensor)
        if tag is None or tag.device == HOST_DEVICE:
            raise NotImplementedError("Could not run 'aten::record_stream' with arguments from the 'CPU' backend.")
        if tensor.numel():
            site = runtime.gpus.site()
            runtime.gpus.monitor.record_stream(tag.ident, self.memory.view(tensor), s.ident, site)


def _parse_to(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[torch.device | None, dict[str, Any]]:
    """Return the device, or None if none is given, and the other options of a call of `Tensor.to`.

    Source:
        torch/csrc/autograd/utils/python_arg_parsing.h, `parse_to_conversion`: the three forms.
        torch/csrc/utils/python_arg_parser.h, `toScalarType`: Python types stand for tensor data types.
    """
    args = tuple(NUMBERS[value] if isinstance(value, type) and value in NUMBERS else value for value in args)
    options = {name: value for name, value in kwargs.items() if value is not None}
    if options.get("dtype") in NUMBERS:
        options["dtype"] = NUMBERS[options["dtype"]]
    device = options.pop("device", None)
    other = options.pop("other", options.pop("tensor", None))
    rest = list(args)
    if rest and not isinstance(rest[0], bool):
        first = rest.pop(0)
        if isinstance(first, torch.Tensor):
            other = first
        elif isinstance(first, torch.dtype):
            options["dtype"] = first
        else:
            device = device if first is None else first
            if rest and (rest[0] is None or isinstance(rest[0], torch.dtype)):
                options |= {} if (dtype := rest.pop(0)) is None else {"dtype": dtype}
    if other is not None:
        device, options["dtype"] = other.device, other.dtype
    options |= dict(zip(("non_blocking", "copy", "memory_format"), rest, strict=False))
    return as_device(device), options


def is_differentiated(tensor: torch.Tensor) -> bool:
    """Return whether a result of this tensor has a gradient or a tangent. Wrappers of `torch.func` always count."""
    if (tensor.requires_grad and torch.is_grad_enabled()) or functorch.is_functorch_wrapped_tensor(tensor):
        return True
    return forward_ad._current_level >= 0 and forward_ad.unpack_dual(tensor).tangent is not None  # type: ignore[no-untyped-call]  # as above


def _check_gradient(own: torch.device, found: torch.device) -> None:
    """Raise torch's error for a gradient on a different device from its tensor.

    Source:
        torch/csrc/autograd/python_variable.cpp, `THPVariable_set_grad`.
    """
    advice = "Please ensure that the gradient and the tensor are on the same device"
    if own.type != found.type:
        raise RuntimeError(
            f"attempting to assign a gradient with device type '{found.type}' to a tensor with device type "
            f"'{own.type}'. {advice}"
        )
    if own != found:
        raise RuntimeError(
            f"attempting to assign a gradient located on device with index '{found.index}' to a tensor located on "
            f"device with index '{own.index}'. {advice}"
        )


def as_device(device: Any) -> torch.device | None:
    """Return a device given in any form that torch accepts, or None for None."""
    if device is None:
        return None
    return gpu(device) if isinstance(device, int) else torch.device(device)


def _has_format(tensor: torch.Tensor, memory_format: Any) -> bool:
    if memory_format in {None, torch.preserve_format}:
        return True
    return tensor.is_contiguous(memory_format=memory_format)


def install_module_moves(patches: Patches) -> None:
    """Make `nn.Module.to(tensor)` use the virtual device of the tensor.

    Source:
        torch/nn/modules/module.py, `Module.to`, parses its arguments in C++.
    """
    functions: Any = nn_module
    parse = functions._parse_to

    def parse_to(*args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], int) and not isinstance(args[0], bool):
            args = (gpu(args[0]), *args[1:])
        if isinstance(kwargs.get("device"), int):
            kwargs["device"] = gpu(kwargs["device"])
        if args and isinstance(args[0], torch.Tensor):
            args = (args[0].device, args[0].dtype, *args[1:])
        other = kwargs.pop("tensor", kwargs.pop("other", None))
        if other is not None:
            kwargs |= {"device": other.device, "dtype": other.dtype}
        return parse(*args, **kwargs)

    patches.set(functions, "_parse_to", parse_to)
