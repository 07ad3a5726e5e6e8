"""Copies to the host that the host does not wait for."""

import ast
from collections.abc import Set

from syncheck.lint.nodes import is_non_blocking, text
from syncheck.source.words import words_of

_OF_THE_HOST = frozenset({"cpu", "host", "pin", "pinned"})
"""Words for host memory."""


def host_copy_source(node: ast.AST, hosts: Set[str] = frozenset()) -> ast.expr | None:
    """Return the source of a non-blocking copy to the host, judging by the names; None for any other node.

    Args:
        node: the node.
        hosts: other expressions for the device of the host, as they are written.
    """
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
        return None
    owner, first = node.func.value, node.args[0]
    target, source = (owner, first) if node.func.attr == "copy_" else (first, owner)
    is_free = is_non_blocking(node)
    is_host = bool(words_of(text(target)) & _OF_THE_HOST) or text(target) in hosts
    is_copy = node.func.attr in {"copy_", "to"} and is_free and is_host
    return source if is_copy else None
