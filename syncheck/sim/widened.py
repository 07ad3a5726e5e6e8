"""Operators that support a data type on GPUs but not on the CPU. They are computed in a wider type.

Source:
    torch/testing/_internal/common_methods_invocations.py: `dtypes` and `dtypesIfCUDA` of each operator.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map

from syncheck.instrument.plan import Plan, tensors_of

_WIDER = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.complex32: torch.complex64}
_WIDER_INTEGER = {torch.bool: torch.uint8} | dict.fromkeys(
    (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64), torch.float64
)
_INTEGER_OPERATORS = frozenset({"abs", "histc", "trace"})
"""Operators that GPUs support for these types. Most others lack support there, too."""


def lacks_kernel_for_type(error: NotImplementedError) -> bool:
    """Return whether an operator failed because the CPU has kernels for it, but not for the data type.

    Source:
        aten/src/ATen/Dispatch.h, `AT_DISPATCH_SWITCH`.
    """
    return "not implemented for '" in str(error)


def in_wider_type(func: Callable[..., Any], plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Compute an operator in a wider type, and return its result in the original type.

    Raises:
        NotImplementedError: there is no wider type, or no kernel for it.
    """
    tensors = tensors_of(plan, args, kwargs)
    wider = _WIDER | (_WIDER_INTEGER if plan.base in _INTEGER_OPERATORS else {})
    narrow = next((tensor.dtype for tensor, _ in tensors if tensor.dtype in wider), None)
    if narrow is None:
        raise NotImplementedError
    wide = wider[narrow]
    copies: dict[int, torch.Tensor] = {}  # id of a tensor -> its wide copy
    originals: dict[int, torch.Tensor] = {}  # id of a wide copy -> the tensor

    def widened(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.dtype != narrow:
            return wide if value is narrow else value
        copy = copies.setdefault(id(value), value.to(wide))
        originals[id(copy)] = value
        return copy

    def narrowed(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.dtype != wide:
            return value
        original = originals.get(id(value))
        return value.to(narrow) if original is None else original

    result = func(*tree_map(widened, args), **tree_map(widened, kwargs))
    for tensor, argument in tensors:
        if argument.is_write and id(tensor) in copies:
            tensor.copy_(copies[id(tensor)])
    return tree_map(narrowed, result)
