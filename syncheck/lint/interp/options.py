"""Optional parameters: which branches a call that leaves them out skips."""

import ast

from syncheck.lint.interp.guards import set_variable
from syncheck.lint.nodes import WAITS, Method, function_around, names, once, walk
from syncheck.source.expressions import last_name


def is_left_out(node: ast.If, tree: ast.Module) -> bool:
    """Return whether calls skip a branch unless they pass an optional parameter, as in `if stats is not None:`.

    The parameter is None by default, and no other branch depends on it. What the branch waits for must not come from
    the parameter: a caller that leaves it out then waits itself.
    """
    name = _needed(node)
    function = function_around(tree, node.lineno) if name else None
    if not isinstance(function, Method) or name not in _none_by_default(function):
        return False
    inside = walk(function)
    is_bound = any(isinstance(one, ast.Name) and one.id == name and isinstance(one.ctx, ast.Store) for one in inside)
    tests = [one.test for one in inside if isinstance(one, ast.If | ast.IfExp | ast.While) and one is not node]
    return not is_bound and not any(name in names(test) for test in tests)


@once
def _needed(node: ast.If) -> str:
    """Return the variable that a branch needs to be set; "" if there is none, or if the branch waits for it."""
    name = set_variable(node.test)
    if node.orelse or not name:
        return ""
    calls = [call for step in node.body for call in walk(step) if isinstance(call, ast.Call)]
    is_awaited = any(last_name(call.func) in WAITS and name in names(call) for call in calls)
    return "" if is_awaited else name


@once
def _none_by_default(function: ast.AST) -> frozenset[str]:
    """Return the parameters of a function whose default is None."""
    if not isinstance(function, Method):
        return frozenset()
    given = function.args
    plain = [*given.posonlyargs, *given.args]
    pairs = [
        *zip(plain[::-1], given.defaults[::-1], strict=False),
        *zip(given.kwonlyargs, given.kw_defaults, strict=True),
    ]
    return frozenset(
        argument.arg for argument, default in pairs if isinstance(default, ast.Constant) and default.value is None
    )
