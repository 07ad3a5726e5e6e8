"""Paths to asynchronous calls of a function that no path has reached yet, because they are in nested branches."""

import ast
from collections.abc import Set

from syncheck.lint.interp.decisions import Flipped, conditions
from syncheck.lint.interp.functions import own_nodes
from syncheck.lint.nodes import children, entered_stream, walk
from syncheck.source.expressions import last_name

_CALLS = frozenset({"isend", "irecv", "batch_isend_irecv", "wait_stream", "wait_event", "replay"})
_OPTIONS = frozenset({"async_op", "non_blocking"})
_FEWEST = 2
"""Fewest branches around a call that other paths may miss: these decide one condition against its default, or all."""


def ways_to_unreached(function: ast.AST, reached: Set[ast.AST]) -> list[Flipped]:
    """Return the decisions that lead to each asynchronous call that was not reached, without duplicates.

    Args:
        function: the function.
        reached: the nodes that ran on earlier paths.
    """
    nodes = list(own_nodes(function))
    missed = [node for node in nodes if _is_asynchronous(node) and not any(part in reached for part in walk(node))]
    if not missed:
        return []
    parents = {child: node for node in nodes for child in children(node)}
    found: dict[Flipped, None] = {}
    for node in sorted(missed, key=lambda node: getattr(node, "lineno", 0)):
        way = _way_to(node, parents)
        if len(way) >= _FEWEST:
            found.setdefault(frozenset(way.items()))
    return list(found)


def _is_asynchronous(node: ast.AST) -> bool:
    match node:
        case ast.With(items=items):
            return any(entered_stream(item.context_expr) is not None for item in items)
        case ast.Call(func=func, keywords=keywords):
            given = (word for word in keywords if word.arg in _OPTIONS)
            is_chosen = any(not isinstance(word.value, ast.Constant) or word.value.value for word in given)
            return is_chosen or last_name(func) in _CALLS
        case _:
            return False


def _way_to(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> dict[str, bool]:
    """Return the conditions of the branches around a node, with the values that lead to it."""
    way: dict[str, bool] = {}
    while (parent := parents.get(node)) is not None:
        if isinstance(parent, ast.If) and node is not parent.test:
            is_body = any(node is statement for statement in parent.body)
            way = dict(conditions(parent.test, value=is_body)) | way
        node = parent
    return way
