"""Operators on containers, and rings whose number of slots is unknown.

A ring is made as `slots = [make() for _ in range(n)]` and used as `slots[i % n]`.
"""

import ast

from syncheck.lint.interp.arithmetic import MAX_ITERATIONS, computed, repeated
from syncheck.lint.interp.values import UNKNOWN, Constant, Mapping, Sequence, Value
from syncheck.lint.nodes import nodes_in, once
from syncheck.source.expressions import last_name


def of_containers(tree: ast.Module, kind: ast.operator, left: Value, right: Value, node: ast.AST) -> Value | None:
    """Return the result of an operator on containers, or the index of a slot of a ring; None for other expressions.

    A ring of unknown size has as many slots as a comprehension makes of something of unknown length.

    Args:
        tree: the file.
        kind: the operator.
        left: its left operand.
        right: its right operand.
        node: the expression.
    """
    match kind, left, right:
        case ast.Mult(), Sequence(), _:
            return repeated(left, _size(tree, right, node))
        case ast.Mult(), _, Sequence():
            return UNKNOWN
        case ast.Add(), Sequence(items=items), Sequence(items=others):
            return Sequence([*items, *others], left.is_open or right.is_open)
        case ast.BitOr(), Mapping(items=items), Mapping(items=others):
            return Mapping(items | others, left.is_open or right.is_open)
        case ast.Mod(), Constant(value=int(number)), _ if isinstance(size := _size(tree, right, node), Constant):
            return computed(kind, number, size.value)
        case _:
            return None


def _size(tree: ast.Module, value: Value, node: ast.AST) -> Value:
    """Return the right operand of an expression: a number of slots if it is unknown and the size of a ring."""
    is_size = not isinstance(value, Constant) and isinstance(node, ast.BinOp) and last_name(node.right) in _sizes(tree)
    return Constant(MAX_ITERATIONS) if is_size else value


@once
def periods(tree: ast.Module) -> frozenset[str]:
    """Return the last names of divisors in a file that are no sizes of rings: `every` of `step % cfg.every == 0`."""
    divisors = (node.right for node in nodes_in(tree) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod))
    return frozenset(map(last_name, divisors)) - _sizes(tree) - {""}


@once
def _sizes(tree: ast.Module) -> frozenset[str]:
    """Return the last names of variables that are the number of items of a list and the divisor of an index."""
    made, divided = set[str](), set[str]()
    for node in nodes_in(tree):
        match node:
            case ast.comprehension(iter=ast.Call(func=ast.Name(id="range"), args=[length])):
                made.add(last_name(length))
            case ast.BinOp(left=ast.List(), op=ast.Mult(), right=length):
                made.add(last_name(length))
            case ast.BinOp(op=ast.Mod(), right=ast.Name() | ast.Attribute() as length):
                divided.add(last_name(length))
            case _:
                pass
    return frozenset(made & divided - {""})
