"""Results on a stream of an object that a method returns: the stream reuses their memory for later results."""

import ast
from collections.abc import Set

from syncheck.lint.evictions import is_move, moving_methods
from syncheck.lint.host_waits import waits_for_others
from syncheck.lint.interp.functions import block_nodes, own_nodes
from syncheck.lint.nodes import Method, bound_names, methods_of, own_attribute, text, walk
from syncheck.source.expressions import last_name

_FACTORIES = frozenset("rand randn randint zeros ones empty full arange tensor".split())
_FETCHING = frozenset({"next", "iter"})
_COPYING = frozenset({"clone", "cpu", "item", "tolist", "numpy", "float", "int", "bool", "len", "isinstance"})
"""Calls whose results are not the tensor that they get."""


def returned_result(kind: ast.ClassDef, block: ast.With, stream: str) -> tuple[str, str]:
    """Return the attribute to which a block assigns a new result, and the method that returns it; "" if there is none.

    The caller may still use the result on its own stream when it drops it.

    Args:
        kind: the class.
        block: a block on a stream that never waits for another one.
        stream: the attribute of `self` with the stream.
    """
    methods = methods_of(kind)
    calls = [node for step in methods.values() for node in own_nodes(step) if isinstance(node, ast.Call)]
    if any(waits_for_others(kind, call, stream) for call in calls):
        return "", ""
    for name in _results(kind, block):
        for step in methods.values():
            if _returns(step, name):
                return name, step.name
    return "", ""


def _results(kind: ast.ClassDef, block: ast.With) -> list[str]:
    """Return the attributes of `self` that a block assigns to tensors that it allocates on a GPU."""
    moving, others = moving_methods(kind), methods_of(kind).keys()
    made = [node for node in block_nodes(block) if isinstance(node, ast.Assign)]
    return [
        name
        for node in made
        if any(_allocates(part, moving, others) for part in walk(node.value))
        for target in node.targets
        if (name := own_attribute(target))
    ]


def _allocates(node: ast.AST, moving: Set[str], methods: Set[str]) -> bool:
    """Return whether a call makes a tensor on a GPU, or is a callback of the object, which runs on its stream."""
    if not isinstance(node, ast.Call):
        return False
    name = own_attribute(node.func)
    if name:
        return name in moving or (name not in methods and name not in _FETCHING)
    has_device = any(word.arg == "device" and "cpu" not in text(word.value) for word in node.keywords)
    return is_move(node) or (has_device and last_name(node.func) in _FACTORIES)


def _returns(method: Method, attribute: str) -> bool:
    """Return whether a method returns what an attribute of `self` holds, directly or in a variable."""
    nodes = list(own_nodes(method))
    aliases = [node for node in nodes if isinstance(node, ast.Assign) and own_attribute(node.value) == attribute]
    held = {name for node in aliases for name in bound_names(node)}
    returned = [node.value for node in nodes if isinstance(node, ast.Return) and node.value is not None]
    return any(
        own_attribute(part) == attribute or (isinstance(part, ast.Name) and part.id in held)
        for value in returned
        for part in _uncopied(value)
    )


def _uncopied(value: ast.expr) -> list[ast.AST]:
    """Return the nodes of a returned value that leave the method as they are."""
    if any(isinstance(node, ast.Call) and last_name(node.func) in _COPYING for node in walk(value)):
        return []
    return walk(value) if isinstance(value, ast.Tuple | ast.List | ast.Dict) else [value]
