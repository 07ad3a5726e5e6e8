"""Guards: branches that leave the path, as `if tensor is None: return`, and that most calls of a function pass by."""

import ast

_LEAVING = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def leaves(body: list[ast.stmt]) -> bool:
    """Return whether a branch ends by leaving the path that it is on."""
    return bool(body) and isinstance(body[-1], _LEAVING)


def usual(node: ast.If) -> bool:
    """Return how a condition that is not known is decided first: a guard is passed by, any other branch is taken."""
    return not leaves(node.body) or leaves(node.orelse)


def is_over(body: list[ast.stmt], *, in_callee: bool) -> bool:
    """Return whether nothing on the path that passes a branch by can have run that branch before.

    What a function returns from may have run where it is called: then its caller goes on.

    Args:
        body: the branch.
        in_callee: the function was called by another one that is followed.
    """
    return bool(body) and (isinstance(body[-1], ast.Raise) or (isinstance(body[-1], ast.Return) and not in_callee))


def awaited_in(body: list[ast.stmt]) -> set[str]:
    """Return the names of what a branch waits for: a handle that only one branch needs is not forgotten."""
    return {
        node.func.value.id
        for statement in body
        for node in ast.walk(statement)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "wait"
        and isinstance(node.func.value, ast.Name)
    }
