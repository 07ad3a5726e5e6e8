"""Copies on a stream of an object that leave it: the stream reuses their memory for later copies.

A generator yields them, or a method returns them after it has made the caller's stream wait.
"""

import ast

from syncheck.lint.evictions import is_move, moving_methods
from syncheck.lint.host_waits import waits_for_others
from syncheck.lint.interp.functions import block_nodes, own_nodes
from syncheck.lint.nodes import Method, methods_of, own_attribute, walk
from syncheck.source.expressions import last_name


def yielded_copy(kind: ast.ClassDef, block: ast.With, stream: str) -> str:
    """Return the variable to which a block binds a copy that leaves a method, or a loop of a generator; "" if none.

    The consumer may still use the copy on its own stream when the generator drops it.

    Args:
        kind: the class.
        block: a block on a stream that never waits for another one.
        stream: the attribute of `self` with the stream.
    """
    method = next((step for step in methods_of(kind).values() if any(node is block for node in walk(step))), None)
    if method is None:
        return ""
    nodes = walk(method)
    if not any(isinstance(node, ast.Yield) for node in own_nodes(method)):
        return _returned_copy(kind, method, block, stream)
    loops = [node for node in nodes if isinstance(node, ast.For | ast.While)]
    if not any(node is block for loop in loops for node in walk(loop)):
        return ""
    if any(isinstance(node, ast.Call) and waits_for_others(kind, node, stream) for node in nodes):
        return ""
    inside = {node for statement in block.body for node in walk(statement)}
    used = {
        node.id
        for node in nodes
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node not in inside
    }
    return next((name for name in _copies(kind, block) if name in used), "")


def _returned_copy(kind: ast.ClassDef, method: Method, block: ast.With, stream: str) -> str:
    """Return the copy of a block that a method returns after a wait of the caller's stream; "" if there is none."""
    nodes = list(own_nodes(method))
    waits = [node for node in nodes if isinstance(node, ast.Call) and last_name(node.func) == "wait_stream"]
    awaited = [call for call in waits if call.args and own_attribute(call.args[0]) == stream]
    if not any(call.lineno > block.lineno for call in awaited):
        return ""
    if any(isinstance(node, ast.Call) and waits_for_others(kind, node, stream) for node in nodes):
        return ""
    returned = {
        part.id
        for node in nodes
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Name | ast.Tuple)
        for part in walk(node.value)
        if isinstance(part, ast.Name)
    }
    return next((name for name in _copies(kind, block) if name in returned), "")


def _copies(kind: ast.ClassDef, block: ast.With) -> list[str]:
    """Return the variables that a block binds to copies to a GPU, made there or in a method that it calls."""
    moving = moving_methods(kind)
    return [
        target.id
        for node in block_nodes(block)
        if isinstance(node, ast.Assign)
        and any(
            is_move(part) or (isinstance(part, ast.Call) and own_attribute(part.func) in moving)
            for part in walk(node.value)
        )
        for target in node.targets
        if isinstance(target, ast.Name)
    ]
