"""Copies that an object keeps in a container and drops again, while other streams may still use them."""

import ast

from syncheck.lint.interp.functions import block_nodes
from syncheck.lint.interp.unknown import says_moved
from syncheck.lint.nodes import (
    blocks_in,
    bound_names,
    is_non_blocking,
    methods_of,
    names,
    own_attribute,
    statements,
    walk,
)
from syncheck.source.expressions import last_name

_MOVES = frozenset({"to", "cuda"})
_DROPPING = frozenset({"pop", "popitem", "popleft", "clear"})


def evicted_copy(kind: ast.ClassDef, block: ast.With) -> ast.Assign | None:
    """Return where a block keeps copies to a GPU that a method drops; None if nowhere.

    They are in a container of the object or of another one, or in an attribute of another object, perhaps only after
    the block. The memory of such a copy belongs to the stream of the block, which reuses it for the next copy.
    """
    filled = _filled(kind, block)
    emptied = _emptied(kind, block) if filled else set()
    return next((node for name, node in filled.items() if name in emptied), None)


def _filled(kind: ast.ClassDef, block: ast.With) -> dict[str, ast.Assign]:
    """Return the places to which copies of a block are assigned, each with an assignment."""
    inside = [node for node in block_nodes(block) if isinstance(node, ast.Assign)]
    inside.sort(key=lambda node: node.lineno)
    copies: set[str] = set()
    for node in inside:  # what is computed from a copy belongs to the stream, too
        is_computed = isinstance(node.value, ast.Call) and bool(names(node.value) & copies)
        if is_computed or any(map(is_move, walk(node.value))):
            copies |= bound_names(node)
    found: dict[str, ast.Assign] = {}
    for node in [*inside, *_following(kind, block)]:
        used = {inner.id for inner in walk(node.value) if isinstance(inner, ast.Name)}
        if used & copies or (node in inside and any(map(is_move, walk(node.value)))):
            found |= {_place(target): node for target in node.targets}
    found.pop("", None)
    return found


def _following(kind: ast.ClassDef, block: ast.With) -> list[ast.Assign]:
    """Return the assignments right after a block that keep what it has computed as it is, perhaps in a tuple."""
    around = (steps for step in methods_of(kind).values() for steps in blocks_in(step, walk(step)) if block in steps)
    after = next((steps[steps.index(block) + 1 :] for steps in around), [])
    kept = [step for step in after if isinstance(step, ast.Assign)]
    return [step for step in kept if isinstance(step.value, ast.Name | ast.Tuple)]


def _emptied(kind: ast.ClassDef, block: ast.With) -> set[str]:
    """Return the places whose items or values a class drops."""
    inside = set(block_nodes(block))
    found: set[str] = set()
    for statement in statements(kind):
        if isinstance(statement, ast.Delete):
            found |= {_place(target) for target in statement.targets}
        if isinstance(statement, ast.Assign) and statement not in inside:
            found |= {_place(target) for target in statement.targets if _is_replaced(target, statement.value)}
        for node in walk(statement):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _DROPPING:
                found.add(_container(node.func.value))
    return found


def _is_replaced(target: ast.expr, value: ast.expr) -> bool:
    """Return whether an assignment drops what another object has: `unit.full = None`, `p.data = shard`."""
    if not isinstance(target, ast.Attribute):
        return False
    is_none = isinstance(value, ast.Constant) and value.value is None
    return is_none or (target.attr == "data" and isinstance(value, ast.Name | ast.Attribute | ast.Subscript))


def _place(target: ast.expr) -> str:
    """Return the container of an item, or an attribute of another object; "" for any other target."""
    if isinstance(target, ast.Subscript):
        return _container(target.value)
    return "" if own_attribute(target) else _attribute(target)


def _container(node: ast.expr) -> str:
    """Return the attribute that a container, or a container of containers, is bound to; "" for any other one."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return f"{attribute}[]" if (attribute := _attribute(node)) else ""


def _attribute(node: ast.expr) -> str:
    """Return "self.x" for an attribute of the object, ".x" for one of another object that has a name, or ""."""
    if own := own_attribute(node):
        return f"self.{own}"
    return f".{node.attr}" if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) else ""


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
