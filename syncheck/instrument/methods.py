"""Replaces methods of torch.Tensor, and torch functions that subclasses override."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import Any, Self

import torch
from torch.overrides import handle_torch_function, has_torch_function, has_torch_function_unary

from syncheck.instrument.named import in_place_of
from syncheck.instrument.patching import Patches
from syncheck.instrument.torch_internals import DisableTorchFunctionSubclass

_NOTHING: AbstractContextManager[None] = nullcontext()
_PLAIN = frozenset({torch.Tensor, torch.nn.Parameter})


class TensorProperty(property):
    """A property of torch.Tensor with the attributes of the getset descriptor that it replaces.

    torch._dynamo reads them when it is imported. Up to torch 2.11 the import fails without them.

    Source:
        torch/_dynamo/utils.py, `is_tensor_base_attr_getter`; torch/_dynamo/variables/torch_function.py,
        `banned_attrs`.
    """

    __objclass__ = torch._C.TensorBase
    __name__: str

    def named(self, name: str) -> Self:
        """Set the name under which torch.Tensor has this property, and return the property."""
        self.__name__ = name
        return self


def replace_method(patches: Patches, name: str, make: Callable[[Any], Any]) -> None:
    """Replace a method of torch.Tensor; overrides by subclasses and modes take precedence, as in torch.

    Source:
        torch/overrides.py; torch/_tensor.py, where every Python method starts this way.
    """
    original = getattr(torch.Tensor, name)
    function = make(original)

    @wraps(original)
    def method(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if has_torch_function_unary(tensor):
            return call_overrides(method, original, (tensor,), (tensor, *args), kwargs)
        with without_overrides(tensor):
            return function(tensor, *args, **kwargs)

    patches.set(torch.Tensor, name, method)


def replace_property(patches: Patches, name: str, compute: Callable[[torch.Tensor], Any]) -> None:
    """Replace a read-only property of torch.Tensor; overrides by subclasses and modes take precedence, as in torch.

    Source:
        torch/csrc/autograd/python_variable.cpp, `handle_torch_function_getter`.
    """

    def get(tensor: torch.Tensor) -> Any:
        if has_torch_function_unary(tensor):
            return handle_torch_function(replacement.__get__, (tensor,), tensor)
        if type(tensor) in _PLAIN:
            return compute(tensor)
        with DisableTorchFunctionSubclass():
            return compute(tensor)

    get.__name__ = name
    replacement = TensorProperty(get).named(name)
    patches.set(torch.Tensor, name, replacement)


def without_overrides(tensor: Any) -> AbstractContextManager[None]:
    """Return a context for torch's own method, in which the tensor's class is not called again."""
    return _NOTHING if type(tensor) in _PLAIN else DisableTorchFunctionSubclass()


def overridable(original: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the replacement of a torch function; overrides by argument classes and by modes take precedence.

    Args:
        original: the function.
        function: the function to call if there is no override.
    """

    @wraps(original)
    def replacement(*args: Any, **kwargs: Any) -> Any:
        values = (*args, *kwargs.values())
        if has_torch_function(values):
            return call_overrides(seen, original, values, args, kwargs)
        return function(*args, **kwargs)

    seen: Callable[..., Any] = in_place_of(original, replacement)
    return seen


def call_overrides(
    replacement: Any, original: Any, values: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Call the `__torch_function__` overrides, by tensor classes or modes, of a replaced function.

    Args:
        replacement: the function as the program sees it; libraries imported from now on look their overrides up by it.
        original: the function as libraries see it that were imported earlier.
        values: the arguments for which has_torch_function is true.
        args: positional arguments of the call.
        kwargs: keyword arguments of the call.

    Raises:
        TypeError: no override accepts the call.

    Source:
        torch/overrides.py, `handle_torch_function`.
    """
    try:
        return handle_torch_function(replacement, values, *args, **kwargs)
    except TypeError as error:
        if not str(error).startswith("no implementation found"):
            raise
        try:
            return handle_torch_function(original, values, *args, **kwargs)
        except AttributeError as missing:  # torch's error message needs the function's module, which C methods lack
            if missing.obj is not original:
                raise
        raise
