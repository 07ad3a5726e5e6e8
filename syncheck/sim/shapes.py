"""Results of operators computed without their values: sizes, strides and data types."""

from importlib import import_module
from typing import Any

import torch
from torch.utils._pytree import tree_map

from syncheck.instrument.plan import Plan
from syncheck.instrument.torch_internals import disable_dispatch_modes, schema_of
from syncheck.instrument.torch_version import torch_version

_META = torch.device("meta")
_WITH_WORKSPACE = frozenset({"mkldnn_rnn_layer"})
"""Operators that return a workspace whose size the meta function does not compute.

Source:
    torch/_meta_registrations.py, `mkldnn_rnn_layer`: its workspace is empty. An LSTM on the CPU uses this operator.
"""


class CannotDeferError(Exception):
    """An operator cannot be deferred."""


def import_meta_functions() -> None:
    """Import what torch imports at its first call of a meta function in Python, where that fails inside an operator.

    Source:
        torch/_dynamo/variables/torch_function.py, `populate_builtin_to_tensor_fn_map`: torch 2.8 calls it while
        importing, and torch functions, which it requires, are disabled inside an operator.
    """
    if torch_version() < (2, 11):
        import_module("torch._dynamo")


def results_of(func: Any, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return an operator's results: the arguments that it returns, and meta tensors for new results.

    Raises:
        CannotDeferError: the results cannot be computed.

    Source:
        `alias_info` of the schema, torch/csrc/jit: a return with the alias set of an argument is that argument.
    """
    schema = schema_of(func)
    given = _aliases(schema, args, kwargs)
    returned = [_argument_of(one, given) for one in schema.returns]
    if not schema.returns or all(found for found, _ in returned):
        values = [value for _, value in returned]
        return values[0] if len(values) == 1 else tuple(values) if values else None
    meta = _on_meta(func, plan, args, kwargs)
    if len(schema.returns) == 1:
        return meta
    return type(meta)(value if found else new for (found, value), new in zip(returned, meta, strict=True))


def _aliases(schema: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return a mapping from the names of written alias sets to the arguments in them."""
    named: dict[str, Any] = {}
    for position, argument in enumerate(schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[position] if position < len(args) else kwargs.get(argument.name)
            named |= dict.fromkeys(argument.alias_info.before_set, value)
    return named


def _argument_of(returned: Any, given: dict[str, Any]) -> tuple[bool, Any]:
    """Return whether a returned value is an argument, and that argument."""
    if returned.alias_info is not None:
        for name in returned.alias_info.before_set:
            if name in given:
                return True, given[name]
    return False, None


def _on_meta(func: Any, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    kwargs = {name: value for name, value in kwargs.items() if name != "generator"}
    if plan.base in _WITH_WORKSPACE:
        raise CannotDeferError
    if plan.has_device:
        kwargs["device"] = _META
    try:
        with disable_dispatch_modes(), torch.no_grad():
            inputs, named = tree_map(_to_meta, (args, kwargs))
            return func(*inputs, **named)
    except Exception as error:
        raise CannotDeferError from error  # the operator itself reports what is wrong with its arguments


def _to_meta(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return _META if isinstance(value, torch.device) else value
    if value.layout is not torch.strided or value.is_conj() or value.is_neg() or value.is_quantized:
        raise CannotDeferError
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=_META)
