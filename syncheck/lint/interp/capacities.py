"""Containers that are full: their number of elements compared with an unknown limit, as in `len(window) > ahead`."""

import ast
from collections.abc import Callable

from syncheck.lint.interp.active_loops import ActiveLoops
from syncheck.lint.interp.values import Constant, Value

_IN_FULL = 2
"""Number of elements of a full container: a loop then runs both while there is room, and when there is none."""
_MIRRORED = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}


def by_size(
    node: ast.Compare, left: Value, right: Value, loops: ActiveLoops, decide: Callable[[ast.expr], bool]
) -> Constant | None:
    """Return the outcome of a comparison in a loop if it shows whether a container is full, else None.

    Args:
        node: a comparison of two values, not both of which are known.
        left: its left value.
        right: its right value.
        loops: the loops that are being iterated.
        decide: returns whether the outcome depends on the number of elements.
    """
    kind: type[ast.cmpop] | None = node.ops[0].__class__
    size, asked = left, node.left
    if isinstance(right, Constant):
        size, asked, kind = right, node.comparators[0], _MIRRORED.get(kind or ast.Eq)
    if kind not in _MIRRORED or not isinstance(size, Constant) or not isinstance(size.value, int):
        return None
    if not (isinstance(asked, ast.Call) and isinstance(asked.func, ast.Name) and asked.func.id == "len"):
        return None
    if not loops.around(node) or not decide(asked):
        return None
    return Constant((size.value >= _IN_FULL) == (kind in {ast.Gt, ast.GtE}))
