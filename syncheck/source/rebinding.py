"""Names that are bound again, so that they stand for something else on another line."""

import ast
from collections.abc import Iterable, Sequence

from syncheck.source.expressions import has_line

_LOOPS = (ast.For, ast.AsyncFor, ast.While)


def is_bound_in_loop(lines: Iterable[int], statements: Iterable[ast.stmt]) -> bool:
    """Return whether a name is bound in a loop, so that other functions may see the value of any iteration, or None.

    Args:
        lines: where the name is bound.
        statements: those of its scope.
    """
    loops = [statement for statement in statements if isinstance(statement, _LOOPS)]
    return any(has_line(loop, line) for loop in loops for line in lines)


def is_loop_variable_outside(name: str, lines: Sequence[int], statements: Iterable[ast.stmt], line: int) -> bool:
    """Return whether a name is only a loop variable and a line is outside those loops: a leftover value.

    Args:
        name: the name.
        lines: where it is bound.
        statements: those of its scope.
        line: the line.
    """
    loops = [one for one in statements if isinstance(one, ast.For | ast.AsyncFor) and name in _names_in(one.target)]
    return bool(loops) and len(loops) == len(lines) and not any(has_line(loop, line) for loop in loops)


def _names_in(target: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}


def is_bound_between(between: range, lines: Iterable[int], statements: Iterable[ast.stmt]) -> bool:
    """Return whether a name may be bound again between two lines.

    Args:
        between: the lines in between.
        lines: where the name is bound.
        statements: those of its scope.
    """
    again = [line for line in lines if line in between]
    branches = [statement for statement in statements if isinstance(statement, ast.If)] if again else []
    return any(not any(_are_alternatives(branch, between.start - 1, line) for branch in branches) for line in again)


def _are_alternatives(branch: ast.If, line: int, other: int) -> bool:
    """Return whether only one of two lines runs, because they are in different branches."""
    arms = [any(has_line(statement, number) for statement in branch.body) for number in (line, other)]
    return has_line(branch, line) and has_line(branch, other) and arms[0] != arms[1]


def reads(name: str, node: ast.AST) -> bool:
    """Return whether a function, or a class, reads a name."""
    names = (inner for inner in ast.walk(node) if isinstance(inner, ast.Name))
    return any(inner.id == name and isinstance(inner.ctx, ast.Load) for inner in names)
