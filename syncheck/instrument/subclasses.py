"""Subclasses of torch.Tensor that are constructed by a call, such as `MyTensor([1.0, 2.0])`."""

from typing import Any

import torch

from syncheck.instrument.patching import Patches
from syncheck.instrument.torch_internals import DisableTorchFunction


def install_subclasses(patches: Patches) -> None:
    """Make subclasses constructible from the result of a dispatch mode, which is a plain tensor.

    Source:
        torch/csrc/autograd/python_variable.cpp, `THPVariable_pynew` and `THPVariable_NewWithVar`: a tensor that already
        has a Python object is rejected.
    """
    original: Any = torch.Tensor.__new__

    # torch/_dynamo/polyfills/tensor.py compares signatures when it is imported; this signature matches any other
    def new(*args: Any, **kwargs: Any) -> Any:
        cls, *values = args
        result = original(torch.Tensor, *values, **kwargs)
        if cls is torch.Tensor or type(result) is cls:
            return result
        with DisableTorchFunction():
            return result.as_subclass(cls)

    patches.set(torch.Tensor, "__new__", staticmethod(new))
