"""Batches that an iterator loads on a stream of its own: the stream reuses their memory for later batches."""

import ast

from syncheck.lint.evictions import is_move
from syncheck.lint.host_waits import waits_for_others
from syncheck.lint.interp.functions import block_nodes, own_nodes
from syncheck.lint.nodes import Method, methods_of, own_attribute, walk
from syncheck.source.expressions import last_name

_ITERATING = ("__next__", "next", "__iter__")
_COPYING = frozenset({"clone", "cpu", "iter"})
"""Calls whose results are not the batches that they get."""


def loaded_batch(kind: ast.ClassDef, block: ast.With, stream: str) -> str:
    """Return the method with which an iterator returns or yields what a block has copied to a GPU; "" if none does.

    The consumer may still use a batch on its own stream when it drops it.

    Args:
        kind: the class.
        block: a block on a stream that never waits for another one.
        stream: the attribute of `self` with the stream.
    """
    methods = methods_of(kind)
    returning = next((name for name in _ITERATING if name in methods and _returns_batch(methods[name])), "")
    if not returning or not any(map(is_move, _run_in(block, methods))):
        return ""
    calls = (node for step in methods.values() for node in own_nodes(step) if isinstance(node, ast.Call))
    return "" if any(waits_for_others(kind, call, stream) for call in calls) else returning


def _run_in(block: ast.With, methods: dict[str, Method]) -> list[ast.AST]:
    """Return the nodes of a block, and of the methods of its class that it mentions: it may pass them to a helper."""
    inside = block_nodes(block)
    mentioned = {own_attribute(node) for node in inside if isinstance(node, ast.Attribute)}
    return [*inside, *(node for name in sorted(mentioned & methods.keys()) for node in own_nodes(methods[name]))]


def _returns_batch(method: Method) -> bool:
    """Return whether a method returns or yields something that may be a batch."""
    values = [node.value for node in own_nodes(method) if isinstance(node, ast.Return | ast.Yield) and node.value]
    batches = [value for value in values if not isinstance(value, ast.Constant) and not _is_name(value, "self")]
    copies = [node for value in batches for node in walk(value) if isinstance(node, ast.Call)]
    return bool(batches) and not any(last_name(call.func) in _COPYING for call in copies)


def _is_name(value: ast.expr, name: str) -> bool:
    return isinstance(value, ast.Name) and value.id == name
