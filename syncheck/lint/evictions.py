"""Copies that an object keeps in a container and drops again, while other streams may still use them."""

import ast

from syncheck.lint.interp.functions import block_nodes
from syncheck.lint.interp.unknown import says_moved
from syncheck.lint.nodes import bound_names, is_non_blocking, methods_of, names, own_container, statements, walk
from syncheck.source.expressions import last_name

_MOVES = frozenset({"to", "cuda"})
_DROPPING = frozenset({"pop", "popitem", "popleft", "clear"})


def evicted_copy(kind: ast.ClassDef, block: ast.With) -> ast.Assign | None:
    """Return where a block puts copies to a GPU into a container of the object that a method empties; None if nowhere.

    The memory of such a copy belongs to the stream of the block, which reuses it for the next copy.
    """
    filled = _filled(block)
    emptied = _emptied(kind) if filled else set()
    return next((node for name, node in filled.items() if name in emptied), None)


def _filled(block: ast.With) -> dict[str, ast.Assign]:
    """Return the attributes of `self` with items that a block assigns copies to, each with an assignment."""
    assigned = [node for node in block_nodes(block) if isinstance(node, ast.Assign)]
    assigned.sort(key=lambda node: node.lineno)
    copies: set[str] = set()
    for node in assigned:  # what is computed from a copy belongs to the stream, too
        is_computed = isinstance(node.value, ast.Call) and bool(names(node.value) & copies)
        if is_computed or any(map(is_move, walk(node.value))):
            copies |= bound_names(node)
    found: dict[str, ast.Assign] = {}
    for node in assigned:
        used = {inner.id for inner in walk(node.value) if isinstance(inner, ast.Name)}
        if used & copies or any(map(is_move, walk(node.value))):
            found |= {own_container(target): node for target in node.targets if isinstance(target, ast.Subscript)}
    found.pop("", None)
    return found


def _emptied(kind: ast.ClassDef) -> set[str]:
    """Return the attributes of `self` whose items a class drops."""
    found: set[str] = set()
    for statement in statements(kind):
        if isinstance(statement, ast.Delete):
            found |= {own_container(target) for target in statement.targets if isinstance(target, ast.Subscript)}
        for node in walk(statement):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _DROPPING:
                found.add(own_container(node.func.value))
    return found


def is_move(node: ast.AST) -> bool:
    """Return whether a call moves a tensor without waiting, or a batch judging by its name: `to_device(batch)`."""
    if not isinstance(node, ast.Call):
        return False
    if node.args and says_moved(last_name(node.func)):
        return True
    return isinstance(node.func, ast.Attribute) and node.func.attr in _MOVES and is_non_blocking(node)


def moving_methods(kind: ast.ClassDef) -> set[str]:
    """Return the methods of a class that move a tensor without waiting."""
    return {name for name, step in methods_of(kind).items() if any(map(is_move, walk(step)))}
