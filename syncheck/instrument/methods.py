"""Replace methods of torch.Tensor, and functions of torch that subclasses override."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import Any

import torch
from torch.overrides import handle_torch_function, has_torch_function, has_torch_function_unary

from syncheck.instrument.patching import Patches
from syncheck.instrument.torch_internals import DisableTorchFunctionSubclass

_NOTHING: AbstractContextManager[None] = nullcontext()
_PLAIN = frozenset({torch.Tensor, torch.nn.Parameter})


def replace_method(patches: Patches, name: str, make: Callable[[Any], Any]) -> None:
    """Replace a method of torch.Tensor; subclasses and modes that override it are asked first, as by torch.

    Source:
        torch/overrides.py; torch/_tensor.py, where every method in Python begins so.
    """
    original = getattr(torch.Tensor, name)
    function = make(original)

    @wraps(original)
    def method(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if has_torch_function_unary(tensor):
            return call_overrides(method, original, (tensor,), (tensor, *args), kwargs)
        with after_overrides(tensor):
            return function(tensor, *args, **kwargs)

    patches.set(torch.Tensor, name, method)


def replace_property(patches: Patches, name: str, compute: Callable[[torch.Tensor], Any]) -> None:
    """Replace a property of torch.Tensor that cannot be set; subclasses and modes are asked first, as by torch.

    Source:
        torch/csrc/autograd/python_variable.cpp, `handle_torch_function_getter`.
    """

    def get(tensor: torch.Tensor) -> Any:
        if has_torch_function_unary(tensor):
            return handle_torch_function(made.__get__, (tensor,), tensor)
        with after_overrides(tensor):
            return compute(tensor)

    get.__name__ = name
    made = property(get)
    patches.set(torch.Tensor, name, made)


def after_overrides(tensor: Any) -> AbstractContextManager[None]:
    """Return the block to run torch's own method in, which must not ask the tensor's class again."""
    return _NOTHING if type(tensor) in _PLAIN else DisableTorchFunctionSubclass()


def overridable(original: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what replaces a function of torch: classes of its arguments, and modes, that override it are asked first.

    Args:
        original: the function.
        function: what is run where nothing overrides it.
    """

    @wraps(original)
    def replacement(*args: Any, **kwargs: Any) -> Any:
        given = (*args, *kwargs.values())
        if has_torch_function(given):
            return call_overrides(replacement, original, given, args, kwargs)
        return function(*args, **kwargs)

    return replacement


def call_overrides(
    replacement: Any, original: Any, given: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Call a replaced function of a tensor's class, or of a mode: `__torch_function__`.

    Args:
        replacement: the function as the program sees it, by which libraries that it imports look theirs up.
        original: the function as libraries know it that were imported before.
        given: what has_torch_function is true of.
        args: of the call.
        kwargs: of the call.

    Raises:
        TypeError: none takes it.

    Source:
        torch/overrides.py, `handle_torch_function`.
    """
    try:
        return handle_torch_function(replacement, given, *args, **kwargs)
    except TypeError as error:
        if not str(error).startswith("no implementation found"):
            raise
        try:
            return handle_torch_function(original, given, *args, **kwargs)
        except AttributeError as missing:  # torch's message wants the module of a function, which methods of C have not
            if missing.obj is not original:
                raise
        raise
