"""Buffers of an object that another method fills, and that a block copies to the host although its stream did not wait.

The object's stream waits elsewhere, so the rule about streams that never wait does not apply.
"""

import ast
from collections.abc import Iterator, Sequence

from syncheck.lint.host_waits import may_come_before, method_around
from syncheck.lint.interp.functions import block_nodes, own_nodes
from syncheck.lint.nodes import (
    Method,
    changed_in_place,
    is_non_blocking,
    methods_of,
    own_attribute,
    own_container,
    text,
    walk,
)
from syncheck.source.expressions import last_name

_ORDERING = frozenset({"wait_stream", "wait_event", "wait", "synchronize"})
_FACTORIES = frozenset({"empty", "zeros", "ones", "full", "new_zeros", "new_empty", "empty_like", "zeros_like"})
_HOST = ("pin_memory", "'cpu'")


def unordered_fetch(kind: ast.ClassDef, block: ast.With, stream: str, blocks: Sequence[ast.With]) -> ast.Call | None:
    """Return a copy to pinned memory of a GPU buffer that another method fills on another stream; None if unknown.

    Args:
        kind: the class.
        block: a block on a stream that waits for others elsewhere in the class.
        stream: the attribute of `self` with the stream.
        blocks: all blocks on that stream.
    """
    method = method_around(kind, block)
    if method is None or _orders(method) or may_come_before(kind, block, stream) or _is_called(kind, method):
        return None
    on_gpu, pinned = _made_by_constructor(kind)
    inside = {node for other in blocks for node in walk(other)}
    filled = {name for other in methods_of(kind).values() for name in _filled_by(other, inside)}
    for node in block_nodes(block):
        match node:
            case ast.Call(func=ast.Attribute(value=target, attr="copy_"), args=[source, *_]):
                is_fetch = own_container(target) in pinned and own_container(source) in on_gpu & filled
                if is_fetch and is_non_blocking(node):
                    return node
            case _:
                pass
    return None


def _orders(method: Method) -> bool:
    """Return whether a method makes any stream or the host wait."""
    return any(isinstance(node, ast.Call) and last_name(node.func) in _ORDERING for node in own_nodes(method))


def _is_called(kind: ast.ClassDef, method: Method) -> bool:
    """Return whether another method of the class calls a method, and may wait before."""
    nodes = (node for other in methods_of(kind).values() for node in own_nodes(other))
    return any(isinstance(node, ast.Call) and own_attribute(node.func) == method.name for node in nodes)


def _made_by_constructor(kind: ast.ClassDef) -> tuple[set[str], set[str]]:
    """Return the attributes for which a constructor allocates memory on a GPU, and those with pinned memory."""
    begin = methods_of(kind).get("__init__")
    on_gpu, pinned = set[str](), set[str]()
    for node in own_nodes(begin) if begin is not None else ():
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            targets = set(map(own_attribute, node.targets))
            made, words = text(node.value), {word.arg for word in node.value.keywords}
            if "pin_memory" in made:
                pinned |= targets
            elif last_name(node.value.func) in _FACTORIES and "device" in words and not any(w in made for w in _HOST):
                on_gpu |= targets
    return on_gpu - {""}, pinned - {""}


def _filled_by(method: Method, inside: set[ast.AST]) -> Iterator[str]:
    """Yield the attributes that a method changes in place outside of the blocks on the stream."""
    if method.name == "__init__":
        return
    for node in (node for node in own_nodes(method) if node not in inside):
        stored = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
        target = stored if isinstance(stored, ast.Subscript) else changed_in_place(node)
        if target is not None:
            yield own_container(target)
