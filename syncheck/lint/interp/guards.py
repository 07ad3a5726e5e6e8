"""Guards: branches that leave the current path, such as `if tensor is None: return`. Most calls skip them."""

import ast
from collections.abc import Iterable

from syncheck.lint.interp.device_tests import on_gpu
from syncheck.lint.nodes import names, once, walk

_WARNING = frozenset({"warn", "warning", "warn_once", "warning_once"})
_LEAVING = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def leaves(body: list[ast.stmt]) -> bool:
    """Return whether a branch ends by leaving the current path."""
    return bool(body) and isinstance(body[-1], _LEAVING)


@once
def by_default(node: ast.If) -> bool:
    """Return the default decision at an undetermined condition: skip a guard, and take any other branch.

    Most calls also skip a branch that warns. A test for a GPU succeeds.
    """
    is_on_gpu = on_gpu(node.test)
    if is_on_gpu is not None:
        return is_on_gpu
    if not node.orelse and any(_warns(statement) for statement in node.body):
        return False
    return not leaves(node.body) or leaves(node.orelse)


def _warns(statement: ast.stmt) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in _WARNING


def is_over(body: list[ast.stmt], *, in_callee: bool) -> bool:
    """Return whether a branch cannot have run on the path that skips it.

    A branch that returns from a called function may have run all the same: the caller then continues.

    Args:
        body: the branch.
        in_callee: whether the function was called by another interpreted function.
    """
    return bool(body) and (isinstance(body[-1], ast.Raise) or (isinstance(body[-1], ast.Return) and not in_callee))


def reads_any(test: ast.expr, variables: set[str]) -> bool:
    """Return whether a condition reads the value of one of some variables, other than for its identity."""
    if isinstance(test, ast.BoolOp):
        return any(reads_any(part, variables) for part in test.values)
    is_identity = isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Is | ast.IsNot | ast.In | ast.NotIn)
    return not is_identity and not variables.isdisjoint(names(test))


def used_in(body: list[ast.stmt]) -> set[str]:
    """Return the names in a branch. Handles that only one branch waits for, or keeps, must not count as forgotten."""
    return {name for statement in body for name in names(statement)}


def waits(body: Iterable[ast.AST]) -> bool:
    """Return whether a loop or a comprehension contains an attribute named `wait`."""
    return any(_waits(statement) for statement in body)


@once
def _waits(statement: ast.AST) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr == "wait" for node in walk(statement))
