"""Replace methods of torch.Tensor."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch.overrides import handle_torch_function, has_torch_function_unary

from syncheck.instrument.patching import Patches


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
            return handle_torch_function(method, (tensor,), tensor, *args, **kwargs)
        return function(tensor, *args, **kwargs)

    patches.set(torch.Tensor, name, method)
