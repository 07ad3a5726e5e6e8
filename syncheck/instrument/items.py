"""Finds the name of an item in a running function, with its own index expression: `slots[turn % 2]` for "slots[1]"."""

import ast
from collections.abc import Callable, Mapping
from functools import lru_cache
from operator import add, floordiv, mod, mul, sub
from types import CodeType, FrameType
from typing import Any

import torch

from syncheck.instrument.naming import attributes_of, name_in_frame, tree_of
from syncheck.source.expressions import subscripts_of
from syncheck.source.frames import locals_of
from syncheck.source.indices import with_own_index

_COMPARED = frozenset({torch.device, torch.dtype})
"""Types of keys that can be compared without running code of the program."""
_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: add,
    ast.Sub: sub,
    ast.Mult: mul,
    ast.FloorDiv: floordiv,
    ast.Mod: mod,
}


def name_of_item(is_wanted: Callable[[Any], bool], frame: FrameType) -> str:
    """Return a running function's own name for an object: "stream", "self.slots[turn % 2]", "streams[device]"."""
    return with_source_index(name_in_frame(frame, is_wanted), frame) or _picked_by_variable(is_wanted, frame)


def _picked_by_variable(is_wanted: Callable[[Any], bool], frame: FrameType) -> str:
    """Return a function's expression for a dict item whose key is a variable; "" if there is none."""
    variables = locals_of(frame)
    for node in _subscripts_of(frame.f_code):
        match node:
            case ast.Subscript(value=ast.Name() | ast.Attribute() as base, slice=ast.Name(id=key)) if key in variables:
                items = _item_with(variables[key], _of(base, variables, frame.f_globals))
                if any(map(is_wanted, items)):
                    return ast.unparse(node)
    return ""


def _of(base: ast.expr, *variables: Mapping[str, Any]) -> Any:
    """Return the value of a name, or of an attribute of a name, without running the program's code; None if unknown."""
    match base:
        case ast.Name(id=name):
            return next((names[name] for names in variables if name in names), None)
        case ast.Attribute(value=ast.Name() as owner, attr=attribute):
            return _attributes_of(_of(owner, *variables)).get(attribute)
        case _:
            return None


def _item_with(key: Any, held: Any) -> list[Any]:
    """Return the items of a dict whose key is the given object, or equals it if it has one of torch's key types."""
    if not issubclass(type(held), dict):
        return []
    is_plain = type(key) in _COMPARED
    return [
        item for one, item in dict.items(held) if one is key or (is_plain and type(one) is type(key) and one == key)
    ]


def with_source_index(name: str, frame: FrameType) -> str:
    """Replace the constant index at the end of a name, as `with_own_index` does, in a running function."""
    variables = locals_of(frame)
    return with_own_index(
        name,
        _subscripts_of(frame.f_code),
        frame.f_lineno,
        lambda node: _value(node.slice, variables),
        lambda base: _length(_of(base, variables, frame.f_globals)),
    )


def _length(value: Any) -> int:
    """Return the number of items of a list, tuple or dict; 0 for anything else."""
    return len(value) if type(value) in {list, tuple, dict} else 0


def _subscripts_of(code: CodeType) -> list[ast.Subscript]:
    """Return the subscript expressions of a function, excluding those of nested functions."""
    tree = tree_of(code.co_filename)
    lines = {line for _, _, line in code.co_lines()}
    return [] if tree is None else [node for node in _all_subscripts(tree) if node.lineno in lines]


@lru_cache(maxsize=16)
def _all_subscripts(tree: ast.Module) -> tuple[ast.Subscript, ...]:
    """Return the subscript expressions of a file. Finding them takes milliseconds, too long for each name."""
    return tuple(subscripts_of(tree))


def _value(index: ast.expr, variables: Mapping[str, Any]) -> int | str | None:
    """Return the current number or string value of an index; None if it is unknown without running the program."""
    match index:
        case ast.Constant(value=int() | str() as value):
            return value
        case ast.Name(id=name):
            return _as_constant(variables.get(name))
        case ast.Attribute(value=ast.Name(id=name), attr=attribute):
            return _as_constant(_attributes_of(variables.get(name)).get(attribute))
        case ast.BinOp(left=left, op=operator, right=right):
            return _evaluated(_OPERATORS.get(type(operator)), _value(left, variables), _value(right, variables))
        case _:
            return None


def _attributes_of(value: Any) -> dict[str, Any]:
    return attributes_of(value) or {}


def _as_constant(value: Any) -> int | str | None:
    return value if type(value) in {int, str} else None


def _evaluated(operator: Callable[[int, int], int] | None, left: object, right: object) -> int | None:
    if operator is None or not isinstance(left, int) or not isinstance(right, int):
        return None
    try:
        return operator(left, right)
    except ZeroDivisionError:
        return None
