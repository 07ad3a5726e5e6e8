"""Buffers of an object that a block on a side stream overwrites, while other streams may still read them."""

import ast
from collections.abc import Set
from typing import NamedTuple

from syncheck.lint.interp.functions import block_nodes, own_nodes
from syncheck.lint.nodes import (
    HOST_READS,
    NO_VALUES,
    Method,
    children,
    methods_of,
    own_attribute,
    own_container,
    statements,
    walk,
)
from syncheck.source.expressions import has_line, last_name

_KEEPING = frozenset("record_stream requires_grad_ share_memory_ detach_".split())
"""Methods that do not write the memory of a tensor."""
_JOINS = frozenset({"wait_stream", "wait_event", "wait"})
_HOST_WAITS = HOST_READS | {"synchronize"}


class Overwritten(NamedTuple):
    """A buffer that is overwritten while it may still be read.

    Attributes:
        name: the attribute of `self`.
        write: the call that overwrites it.
        read: an attribute in another method that reads it, if any.
        method: the name of that method.
    """

    name: str
    write: ast.Call
    read: ast.Attribute | None = None
    method: str = ""


def overwritten_buffer(kind: ast.ClassDef, block: ast.With, blocks: list[ast.With]) -> Overwritten | None:
    """Return a buffer that a block overwrites and that another method reads after it waits; None if there is none.

    Args:
        kind: the class.
        block: the block, on a stream that never waits for another one.
        blocks: all blocks on the same stream.
    """
    rebound = rebound_attributes(kind)
    written = {name: call for name, call in _written(block).items() if name not in rebound}
    inside = {node for other in blocks for node in walk(other)}
    is_joined = _is_joined(kind, block)
    for method in kind.body if written else ():
        if isinstance(method, Method) and not method.lineno <= block.lineno <= (method.end_lineno or 0):
            read = _read_after_wait(method, written.keys(), inside, is_joined=is_joined)
            if read is not None:
                return Overwritten(read.attr, written[read.attr], read, method.name)
    return None


def _is_joined(kind: ast.ClassDef, block: ast.With) -> bool:
    """Return whether the caller's stream waits after a block, in its method or in its context manager."""
    methods = methods_of(kind)
    entered = {own_attribute(getattr(item.context_expr, "func", None)) for item in block.items} & methods.keys()
    managers = [methods[name] for name in entered]
    around = [method for method in methods.values() if method.lineno <= block.lineno <= (method.end_lineno or 0)]
    calls = [node for method in (*around, *managers) for node in own_nodes(method) if isinstance(node, ast.Call)]
    waits = [call for call in calls if last_name(call.func) in _JOINS]
    last = block.end_lineno or block.lineno
    return any(call.lineno > last or any(has_line(manager, call.lineno) for manager in managers) for call in waits)


def _written(block: ast.With) -> dict[str, ast.Call]:
    """Return the attributes of `self` that a block changes in place, each with a call that does."""
    found: dict[str, ast.Call] = {}
    for node in block_nodes(block):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            called = node.func.attr
            if called.endswith("_") and not called.startswith("_") and called not in _KEEPING:
                found[own_container(node.func.value)] = node
    found.pop("", None)
    return found


def rebound_attributes(kind: ast.ClassDef) -> set[str]:
    """Return the attributes that methods other than the constructor assign."""
    return {
        node.attr
        for method in kind.body
        if isinstance(method, Method) and method.name != "__init__"
        for statement in statements(method)
        if isinstance(statement, ast.Assign | ast.AnnAssign | ast.Delete)
        for target in (statement.targets if isinstance(statement, ast.Assign | ast.Delete) else [statement.target])
        for node in walk(target)
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load)
    }


def _read_after_wait(
    method: Method, written: Set[str], inside: set[ast.AST], *, is_joined: bool
) -> ast.Attribute | None:
    """Return where a method reads one of the buffers after a wait for a stream, if the host waits for it nowhere.

    Args:
        method: the method.
        written: the attributes with the buffers.
        inside: the nodes of the blocks on the stream.
        is_joined: whether the wait precedes the call of the method.
    """
    nodes = list(own_nodes(method))
    parents = {child: node for node in nodes for child in children(node)}
    called = [node for node in nodes if isinstance(node, ast.Call)]
    joins = [node.lineno for node in called if last_name(node.func) in _JOINS and node not in inside]
    hosts = [node.lineno for node in called if last_name(node.func) in _HOST_WAITS]
    for node in nodes:
        if not isinstance(node, ast.Attribute) or node.attr not in written or node in inside:
            continue
        parent = parents.get(node)
        is_read = isinstance(parent, ast.Subscript | ast.BinOp | ast.Call) or (
            isinstance(parent, ast.Attribute) and parent.attr not in NO_VALUES
        )
        if own_container(node) and is_read and isinstance(node.ctx, ast.Load):
            after = [line for line in hosts if line >= node.lineno]
            if (is_joined or any(line <= node.lineno for line in joins)) and not after:
                return node
    return None
