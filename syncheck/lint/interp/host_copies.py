"""Copies that the host does not wait for."""

import ast
from collections.abc import Set

from syncheck.lint.nodes import is_non_blocking, text
from syncheck.source.expressions import last_name
from syncheck.source.words import words_of

_OF_THE_HOST = frozenset({"cpu", "host", "pin", "pinned"})
"""Words for host memory."""
_STATE_COPIES = frozenset({"_copy_state_dict", "_offload_state_dict_to_cpu"})
"""Functions of torch.distributed._state_dict_utils that copy a state to the host."""
_MOVES = frozenset({"to", "cuda", "copy_"})


def host_copy_source(node: ast.AST, hosts: Set[str] = frozenset()) -> ast.expr | None:
    """Return the source of a non-blocking copy to the host, judging by the names; None for any other node.

    Args:
        node: the node.
        hosts: other expressions for the host, or for memory of it, as they are written.
    """
    if isinstance(node, ast.Call) and last_name(node.func) in _STATE_COPIES and node.args:
        return node.args[0] if is_non_blocking(node) else None
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
        return None
    owner, first = node.func.value, node.args[0]
    target, source = (owner, first) if node.func.attr == "copy_" else (first, owner)
    is_free = is_non_blocking(node)
    memory = target.value if isinstance(target, ast.Subscript) else target
    is_host = bool(words_of(text(target)) & _OF_THE_HOST) or text(memory) in hosts
    is_copy = node.func.attr in {"copy_", "to"} and is_free and is_host
    return source if is_copy else None


def is_free_move(node: ast.AST) -> bool:
    """Return whether a call copies something and may return before the copy is complete.

    `copy_` waits for no copy on a GPU. Otherwise, the host waits unless `non_blocking` is passed.
    """
    if not isinstance(node, ast.Call) or last_name(node.func) not in _MOVES:
        return False
    option = next((word.value for word in node.keywords if word.arg == "non_blocking"), None)
    if option is not None:
        return not (isinstance(option, ast.Constant) and not option.value)
    return last_name(node.func) == "copy_" or len(node.args) > (last_name(node.func) == "to")
