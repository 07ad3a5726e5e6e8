"""`torch.tensor` and related functions: their results are placed on the virtual device given by the program."""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import torch
from torch.overrides import _get_current_function_mode_stack, has_torch_function_unary
from torch.utils._device import DeviceContext, _device_constructors

from syncheck.instrument.methods import call_overrides, without_overrides
from syncheck.instrument.named import in_place_of
from syncheck.instrument.patching import Patches
from syncheck.instrument.torch_internals import SPARSE, nested_functions, overrides_dispatch
from syncheck.sim.copies import Copies
from syncheck.sim.device_kind import gpu, is_on_gpu
from syncheck.sim.fake_gradients import created_by
from syncheck.sim.legacy_types import is_size
from syncheck.sim.placement import raw_device
from syncheck.sim.runtime import Runtime
from syncheck.sim.tensors import as_device

# Their C++ code parses the device, and there an integer does not denote a GPU.
_FACTORIES = """empty zeros ones full rand randn randint arange linspace logspace eye empty_strided empty_permuted
randperm tril_indices triu_indices hann_window hamming_window bartlett_window blackman_window kaiser_window normal
range scalar_tensor""".split()
_LIKE = "empty_like zeros_like ones_like full_like rand_like randn_like randint_like".split()
_COMPRESSED = {
    "sparse_csr_tensor": SPARSE[torch.sparse_csr],
    "sparse_bsr_tensor": SPARSE[torch.sparse_bsr],
    "sparse_csc_tensor": SPARSE[torch.sparse_csc],
    "sparse_bsc_tensor": SPARSE[torch.sparse_bsc],
    "sparse_compressed_tensor": ("compressed_indices", "plain_indices", "values"),
}
"""Functions that create a sparse tensor from its parts -> names of the parts."""
_NEW = "new_empty new_zeros new_ones new_full new_empty_strided".split()


class Creation:
    """Replaces the functions that create tensors and whose result does not pass through the dispatcher unchanged."""

    def __init__(self, runtime: Runtime, copies: Copies, patches: Patches) -> None:
        self._runtime = runtime
        self._copies = copies
        self._patches = patches

    def install(self) -> None:
        """Install all replacements."""
        device_constructors = _device_constructors()  # cached by torch: it must be computed from the original functions
        makers: dict[str, Callable[[Any], Any]] = {
            "tensor": self._tensor,
            "as_tensor": self._as_tensor,
            "asarray": self._as_tensor,
            "sparse_coo_tensor": self._sparse,
            **dict.fromkeys(_COMPRESSED, self._compressed),
        }
        for name, make in makers.items():
            original = getattr(torch, name)
            function = self._set(name, _with_mode_overrides(original, make(original)))
            if original in device_constructors:
                device_constructors.add(function)
                self._patches.on_undo(partial(device_constructors.discard, function))
        for name in _FACTORIES:
            self._set(name, self._factory(getattr(torch, name)))
        for name in _LIKE:
            self._set(name, self._like(getattr(torch, name)))
        for name in _NEW:
            self._patches.set(torch.Tensor, name, self._like(getattr(torch.Tensor, name)))
        self._patches.set(nested_functions, "nested_tensor", self._nested(nested_functions.nested_tensor))
        self._patches.set(torch.Tensor, "new_tensor", self._new_tensor(torch.Tensor.new_tensor))
        self._patches.set(torch.Tensor, "new", self._new(torch.Tensor.new))

    def _set(self, name: str, function: Any) -> Any:
        """Replace a function of torch, also for the TorchScript compiler, which looks up operators by function.

        Returns:
            The function as the program sees it.

        Source:
            torch/jit/_builtins.py.
        """
        self._patches.set(torch, name, function)
        function = getattr(torch, name)
        table: Any = torch.jit._builtins._get_builtin_table()  # type: ignore[no-untyped-call]  # no public name
        table[id(function)] = f"aten::{name}"
        self._patches.on_undo(lambda: table.pop(id(function), None) and None)
        return function

    def _factory(self, original: Any) -> Any:
        runtime = self._runtime

        @wraps(original)
        def factory(*args: Any, **kwargs: Any) -> Any:
            if type(kwargs.get("device")) is int:
                kwargs["device"] = gpu(kwargs["device"])
            if kwargs.get("generator") is not None:
                _check_generator(kwargs["generator"], as_device(kwargs.get("device")))
            if isinstance(kwargs.get("out"), torch.Tensor) and kwargs.get("device") is not None:
                _check_output(kwargs["out"], torch.device(kwargs.pop("device")))
            if kwargs.get("pin_memory"):
                runtime.check_process()
            return created_by(original, *args, **kwargs)

        return factory

    def _tensor(self, original: Any) -> Any:
        @wraps(original)
        def tensor(
            data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False
        ) -> torch.Tensor:
            target = as_device(device) or _default_device(data)
            with torch.device("cpu"):
                made = original(_on_cpu(data), dtype=dtype)
            made = self._place(made, target, pinned=pin_memory)
            return made.requires_grad_() if requires_grad else made

        return tensor

    def _nested(self, original: Any) -> Any:
        """Make a nested tensor of the strided layout, by default on the device of its first part."""
        make = self._tensor(original)

        @wraps(original)
        def nested_tensor(data: Any, *, device: Any = None, **kwargs: Any) -> torch.Tensor:
            first = data[0] if isinstance(data, list | tuple) and data else None
            if device is None and isinstance(first, torch.Tensor):
                device = first.device
            return make(data, device=device, **kwargs)  # type: ignore[no-any-return]  # as above

        return nested_tensor

    def _place(self, made: torch.Tensor, target: torch.device, *, pinned: bool = False) -> torch.Tensor:
        if target.type == "cpu":
            return self._copies.pin(made) if pinned else made
        return made.to(target)

    def _as_tensor(self, original: Any) -> Any:
        @wraps(original)
        def convert(data: Any, dtype: Any = None, device: Any = None, **kwargs: Any) -> torch.Tensor:
            if not isinstance(data, torch.Tensor):
                target = as_device(device) or _default_device(data)
                with torch.device("cpu"):
                    return self._place(original(_on_cpu(data), dtype=dtype, **kwargs), target)
            requires_grad = kwargs.pop("requires_grad", False)
            copy = bool(kwargs.pop("copy", False))
            made = data.to(as_device(device) or data.device, dtype or data.dtype, copy=copy)
            return made.requires_grad_() if requires_grad else made

        return convert

    def _sparse(self, original: Any) -> Any:
        @wraps(original)
        def sparse_coo_tensor(
            indices: Any = None, values: Any = None, size: Any = None, *, device: Any = None, **kwargs: Any
        ) -> torch.Tensor:
            if values is None:
                return self._empty_sparse(original, indices if size is None else size, device, kwargs)
            target = as_device(device) or _default_device(values)
            indices, values = (torch.as_tensor(part).to(target) for part in (indices, values))
            sizes = () if size is None else (size,)
            return original(indices, values, *sizes, **kwargs)  # type: ignore[no-any-return]  # torch's own function

        return sparse_coo_tensor

    def _compressed(self, original: Any) -> Any:
        names = _COMPRESSED[original.__name__]

        @wraps(original)
        def compressed(*parts: Any, device: Any = None, **kwargs: Any) -> torch.Tensor:
            indices_and_values = [*parts[:3], *map(kwargs.pop, names[len(parts) :])]
            target = as_device(device) or _default_device(indices_and_values[2])
            placed = (torch.as_tensor(part).to(target) for part in indices_and_values)
            return original(*placed, *parts[3:], **kwargs)  # type: ignore[no-any-return]  # torch's own function

        return compressed

    def _empty_sparse(self, original: Any, size: Any, device: Any, kwargs: dict[str, Any]) -> torch.Tensor:
        target = as_device(device) or _default_device(None)
        made: torch.Tensor = original(size, **kwargs)
        return made.to(target)

    def _like(self, original: Any) -> Any:
        is_new = original.__name__.startswith("new_")

        @wraps(original)
        def like(*args: Any, **kwargs: Any) -> Any:
            template = args[0] if args else kwargs.get("input")
            if has_torch_function_unary(template):
                return call_overrides(seen, original, (template,), args, kwargs)
            with without_overrides(template):
                device = as_device(kwargs.get("device"))
                if device is None:
                    return created_by(original, *args, **kwargs)
                tensor = args[0] if args else kwargs.pop("input")
                if device.type == "cpu" and is_on_gpu(tensor) and raw_device(tensor).type == "cpu":
                    if overrides_dispatch(type(tensor)):  # it makes a tensor of its own class
                        with self._runtime.unmonitored():
                            return original(tensor, *args[1:], **{**kwargs, "device": device})
                    tensor = self._stand_in(tensor, is_new=is_new)
                return created_by(original, tensor, *args[1:], **{**kwargs, "device": device})

        seen = in_place_of(original, like)
        return seen

    def _stand_in(self, tensor: torch.Tensor, *, is_new: bool) -> torch.Tensor:
        """Return a host tensor with the properties that the new tensor inherits."""
        with self._runtime.unmonitored():
            if is_new:
                return torch.empty(0, dtype=tensor.dtype)
            return torch.empty_like(tensor)

    def _new_tensor(self, original: Any) -> Any:
        @wraps(original)
        def new_tensor(tensor: torch.Tensor, data: Any, **kwargs: Any) -> torch.Tensor:
            options: dict[str, Any] = {"dtype": tensor.dtype, "device": tensor.device} | kwargs
            return torch.tensor(data, **options)

        return new_tensor

    def _new(self, original: Any) -> Any:
        @wraps(original)
        def new(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
            device = as_device(kwargs.pop("device", None)) or tensor.device
            if tensor.is_sparse and args and isinstance(args[0], torch.Tensor):
                return torch.sparse_coo_tensor(*args, **kwargs)
            if not tensor.is_sparse and is_size(args) and not kwargs:
                return torch.empty(*args, dtype=tensor.dtype, device=device)
            with self._runtime.unmonitored():
                layout = torch.sparse_coo if tensor.is_sparse else torch.strided
                plain = torch.empty(0, dtype=tensor.dtype, layout=layout)
                made = original(plain, *args, **kwargs)
            return made.to(device)  # type: ignore[no-any-return]  # torch's own function

        return new


def _with_mode_overrides(original: Any, function: Any) -> Any:
    """Return a replacement for a function that creates tensors. The program's modes may override it first.

    Source:
        torch/csrc/autograd/python_torch_functions_manual.cpp: overrides of the arguments are not called.
    """

    @wraps(original)
    def replacement(*args: Any, **kwargs: Any) -> Any:
        if has_torch_function_unary(None) and not all(  # a mode is active
            isinstance(mode, DeviceContext)
            for mode in _get_current_function_mode_stack()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        ):
            return call_overrides(seen, original, (), args, kwargs)
        return function(*args, **kwargs)

    seen = in_place_of(original, replacement)
    return seen


def _check_output(out: torch.Tensor, device: torch.device) -> None:
    """Raise torch's error for an output on a device of another type.

    Source:
        torch/csrc/autograd/utils/python_arg_parsing.h, `check_out_type_matches`.
    """
    if out.device.type != device.type:
        raise RuntimeError(f"device type {device.type} does not match device type of out parameter ({out.device.type})")


def _check_generator(generator: Any, device: torch.device | None) -> None:
    """Raise torch's error for a generator of another device type.

    Source:
        aten/src/ATen/core/Generator.h, `check_generator`.
    """
    expected, found = (device or _default_device(None)).type, generator.device.type
    if expected != found:
        raise RuntimeError(f"Expected a '{expected}' device type for generator but found '{found}'")


def _default_device(data: Any) -> torch.device:
    """Return the device for a tensor made from `data`: that of `data`, or of the innermost `with torch.device`."""
    if isinstance(data, torch.Tensor):
        return data.device
    for mode in reversed(_get_current_function_mode_stack()):  # type: ignore[no-untyped-call]  # torch leaves it untyped
        if isinstance(mode, DeviceContext):
            return torch.device(mode.device)
    return torch.device("cpu")


def _on_cpu(data: Any) -> Any:
    """Return data with GPU tensors moved to the CPU. torch copies their values one by one, as `item()` does."""
    if isinstance(data, torch.Tensor):
        return data.detach().cpu() if is_on_gpu(data) else data
    if isinstance(data, list | tuple) and any(isinstance(item, torch.Tensor | list | tuple) for item in data):
        return [_on_cpu(item) for item in data]
    return data
