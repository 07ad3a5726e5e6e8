"""Gradients and parameters of the caller that a block on a side stream changes in place."""

import ast

from syncheck.lint.host_waits import method_around
from syncheck.lint.interp.functions import block_nodes, own_nodes
from syncheck.lint.nodes import bound_names, changed_in_place, parameters

_OF_PARAMETERS = frozenset({"grad", "data", "main_grad"})
"""Members of a parameter that an optimizer reads."""


def updated_argument(kind: ast.ClassDef, block: ast.With) -> ast.AST | None:
    """Return the call by which a block changes what the caller's parameter has: `p.grad.div_(n)`; None if none does.

    Args:
        kind: the class.
        block: a block on a stream of its object.
    """
    method = method_around(kind, block)
    if method is None:
        return None
    given = {argument.arg for argument in parameters(method)} - {"self"}
    inside = block_nodes(block)
    assigned = [node for node in own_nodes(method) if isinstance(node, ast.Assign)]
    aliases = {name for node in assigned if _is_of_parameter(node.value, given) for name in bound_names(node)}
    for node in inside:
        target = changed_in_place(node)
        if (isinstance(target, ast.Name) and target.id in aliases) or _is_of_parameter(target, given):
            return node
    return None


def _is_of_parameter(node: ast.expr | None, given: set[str]) -> bool:
    """Return whether an expression is the gradient or the data of an argument."""
    match node:
        case ast.Attribute(value=ast.Name(id=name), attr=attribute):
            return name in given and attribute in _OF_PARAMETERS
        case _:
            return False
