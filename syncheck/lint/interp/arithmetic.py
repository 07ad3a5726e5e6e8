"""Results of operators on known values."""

import ast
import math
import operator
from collections.abc import Callable
from typing import Any

from syncheck.lint.interp.contents import any_items
from syncheck.lint.interp.identities import ITERATOR
from syncheck.lint.interp.values import UNKNOWN, Attribute, ClockReading, Constant, Sequence, Symbol, Value
from syncheck.lint.nodes import once

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Div: operator.truediv,
    ast.BitAnd: operator.and_,
    ast.BitXor: operator.xor,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}
_ORDERS = ast.Lt | ast.LtE | ast.Gt | ast.GtE
_OPERATORS: dict[type[ast.AST], str] = {
    ast.MatMult: "mm",
    ast.Mult: "mul",
    ast.FloorDiv: "floor_divide",
    ast.Mod: "remainder",
    ast.BitAnd: "bitwise_and",
    ast.BitOr: "bitwise_or",
    ast.BitXor: "bitwise_xor",
    ast.LShift: "bitwise_left_shift",
    ast.RShift: "bitwise_right_shift",
    ast.Invert: "bitwise_not",
    ast.USub: "neg",
    ast.UAdd: "positive",
    ast.NotEq: "ne",
    ast.LtE: "le",
    ast.GtE: "ge",
}
"""Operators of tensors whose names in torch are not those of Python's syntax."""
_MAX_ITEMS = 64
MAX_ITERATIONS = 3
"""Number of interpreted iterations of a loop. Errors between iterations show in the second one; with double buffering,
in the third."""


class Growing(int):
    """A number that grows, beyond the interpreted iterations, in a loop whose end is unknown."""

    __slots__ = ()


@once
def constant(node: ast.Constant) -> Constant:
    """Return the value of a literal."""
    return Constant(node.value)


def operator_name(kind: ast.AST) -> str:
    """Return torch's name of an operator: "mul" for `x * y`."""
    return _OPERATORS.get(type(kind), type(kind).__name__.lower())


def computed(kind: ast.operator, left: Any, right: Any) -> Value:
    """Return the result of a binary operator on two constants."""
    compute = _BINARY.get(type(kind))
    small = all(not isinstance(value, int) or abs(value) < 1 << 40 for value in (left, right))
    has_text = isinstance(left, str | bytes) or isinstance(right, str | bytes)
    if compute is None or not small or (has_text and isinstance(kind, ast.Mult | ast.Mod)):
        return UNKNOWN
    try:
        made = compute(left, right)
        grows = isinstance(made, int) and Growing in (type(left), type(right)) and not isinstance(kind, ast.Mod)
        return Constant(Growing(made) if grows else made)
    except (TypeError, ValueError, ArithmeticError):
        return UNKNOWN


def compared(kind: ast.cmpop, left: Any, right: Any) -> Value:
    """Return the result of a comparison of two constants. A number that grows is equal to another only once."""
    compare = _COMPARE.get(type(kind))
    if compare is None:
        return UNKNOWN
    try:
        is_open = isinstance(kind, _ORDERS) and _grows_past(compare, left, right)
        return UNKNOWN if is_open else Constant(compare(left, right))
    except TypeError:
        return UNKNOWN


def _grows_past(compare: Callable[[Any, Any], Any], left: Any, right: Any) -> bool:
    """Return whether a comparison with the number of the latest iteration has another result in a later one."""
    numbers = [value for value in (left, right) if isinstance(value, Growing)]
    if len(numbers) != 1 or numbers[0] < MAX_ITERATIONS - 1:
        return False
    later = [math.inf if isinstance(value, Growing) else value for value in (left, right)]
    return bool(compare(left, right) != compare(*later))


def repeated(left: Value, right: Value) -> Value:
    """Return the product of a list and a number."""
    if isinstance(left, Sequence) and isinstance(right, Constant) and isinstance(right.value, int):
        return Sequence((left.items * max(0, min(right.value, _MAX_ITEMS)))[:_MAX_ITEMS], left.is_open)
    return UNKNOWN


def is_same(left: Value, right: Value) -> bool | None:
    """Return whether two values are the same object; None if unknown."""
    if isinstance(left, Constant) and isinstance(right, Constant):
        return left.value is right.value
    if left is right and left is not ITERATOR:
        return True
    none = next((value for value in (left, right) if isinstance(value, Constant) and value.value is None), None)
    other = right if none is left else left
    if none is None or (type(other) in {Value, Symbol, Attribute} and other is not ITERATOR):
        return None
    return False


def subscript(owner: Sequence, index: Any) -> Value:
    """Return the item or the slice of a list that an index selects."""
    if isinstance(index, slice):
        try:
            return Sequence(owner.items[index], owner.is_open)
        except (TypeError, ValueError):
            return any_items(owner)
    if not isinstance(index, int) or (owner.is_open and index < 0):
        return UNKNOWN
    return owner.items[index] if -len(owner.items) <= index < len(owner.items) else UNKNOWN


def of_clocks(
    kind: ast.operator, left: Value, right: Value, subtract: Callable[[ClockReading, ClockReading], None]
) -> Value:
    """Return the result of an operator on the reading of a clock; `subtract`: notes the difference of two readings."""
    if isinstance(left, ClockReading) and isinstance(right, ClockReading):
        is_subtracted = right.is_negative != isinstance(kind, ast.Sub)
        if isinstance(kind, ast.Sub | ast.Add) and left.is_negative != is_subtracted:
            subtract(left, right) if is_subtracted else subtract(right, left)
        return UNKNOWN
    if isinstance(right, ClockReading) and isinstance(kind, ast.Sub):
        return ClockReading(right.ident, is_negative=True)
    has_factor = isinstance(left, Constant) or isinstance(right, Constant)
    if has_factor and isinstance(kind, ast.Mult | ast.Div | ast.FloorDiv):
        return left if isinstance(left, ClockReading) else right  # another unit
    return UNKNOWN
