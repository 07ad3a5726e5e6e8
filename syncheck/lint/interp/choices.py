"""Heuristics on the source of unknown values, and attributes of values.

Which of two alternatives matters, and what does the host read?
"""

import ast
from collections.abc import Callable

from syncheck.lint.interp.arithmetic import MAX_ITERATIONS, Growing
from syncheck.lint.interp.identities import is_unknown
from syncheck.lint.interp.unknown import called_name, is_moved, may_be_tensor
from syncheck.lint.interp.values import (
    NONE,
    UNKNOWN,
    Attribute,
    Constant,
    Device,
    Instance,
    Sequence,
    Stream,
    Tensor,
    Value,
)
from syncheck.lint.nodes import is_non_blocking, walk
from syncheck.semantics.python_api import MEMBERS_WITHOUT_MEMORY, REORDERING

_MAX_MADE = 8


def is_made(value: Value) -> bool:
    """Return whether a value is created as a default where the caller passes nothing: `stream or Stream()`."""
    return isinstance(value, Stream | Instance)


def creates_fallback(node: ast.IfExp) -> bool:
    """Return whether only the second alternative starts something: `stream if stream is not None else Stream()`."""
    made = node.orelse
    if _may_not_block(made) and not _may_not_block(node.body):
        return True
    return isinstance(made, ast.Call) and not isinstance(node.body, ast.Call) and called_name(made) == "Stream"


def _may_not_block(node: ast.expr) -> bool:
    """Return whether an expression is a call with a `non_blocking` argument."""
    return isinstance(node, ast.Call) and is_non_blocking(node)


def has_element(bound: ast.expr | None) -> bool:
    """Return whether a slice bound contains an indexed element. If that is a tensor, the host reads it."""
    return bound is not None and any(isinstance(node, ast.Subscript) for node in walk(bound))


def attribute_of_unknown(owner: Value, name: str) -> Value:
    """Return an attribute of a value about which little is known."""
    if isinstance(owner, Device) and name == "type" and owner.index is None and owner.is_named:
        return Constant("cpu")
    if type(owner) is Value and name.startswith("__"):
        return UNKNOWN
    is_about_tensor = name in MEMBERS_WITHOUT_MEMORY and (may_be_tensor(owner) or is_moved(owner))
    return Attribute(UNKNOWN if is_about_tensor else owner, name)


def n_made(source: Value) -> int:
    """Return how many items a comprehension makes at most.

    From something of unknown length it makes fewer than a loop has iterations, so that a loop that uses the slots of a
    ring in turn comes back to the first.
    """
    items = source.items if isinstance(source, Sequence) and source.is_open else []
    is_range = bool(items) and all(isinstance(item, Constant) and isinstance(item.value, Growing) for item in items)
    return MAX_ITERATIONS if is_range or is_unknown(source) else _MAX_MADE


def attribute_of_tensor(owner: Tensor, name: str, alias: Callable[..., Value]) -> Value:
    """Return an attribute of a tensor; `alias`: makes another tensor over the same memory."""
    if name == "grad":
        return owner.grad or NONE
    if name == "device":
        return Device(owner.block.device, is_named=False)
    if name == "is_cuda":
        return Constant(owner.block.device is not None)
    if name in {"T", "mT", "H", "mH", "data", "real", "values", "indices"}:
        return alias(owner, owner.part, is_strided=name in REORDERING)
    return Attribute(owner, name)
