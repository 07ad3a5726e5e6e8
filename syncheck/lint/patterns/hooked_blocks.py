"""Blocks on a side stream that a hook reaches without the wait that another caller of their method has."""

import ast

from syncheck.lint.host_waits import method_around
from syncheck.lint.interp.functions import own_nodes
from syncheck.lint.nodes import callers_among, methods_of, own_attribute, text, walk
from syncheck.source.expressions import last_name

_WAITS = frozenset({"wait_stream", "wait_event", "synchronize"})
_USING = frozenset({"stream", "record_stream", "record"})
"""Calls that get a stream and let it wait for nothing."""


def is_reached_by_hook(kind: ast.ClassDef, block: ast.With, stream: str) -> bool:
    """Return whether a hook calls the method of a block, and nothing on that way makes the block's stream wait.

    Args:
        kind: the class.
        block: the block.
        stream: the attribute of `self` with its stream.
    """
    method, methods = method_around(kind, block), methods_of(kind)
    if method is None or _waits(method, stream):
        return False
    hooks = {name for each in methods.values() for node in own_nodes(each) for name in _registered(node)}
    callers = callers_among(methods.values(), method.name)
    plain = [caller for caller in callers if caller.name in hooks and not caller.decorator_list]
    return any(not _waits(caller, stream) for caller in plain)


def _registered(node: ast.AST) -> list[str]:
    """Return the methods of the object that a call registers as hooks."""
    if not isinstance(node, ast.Call) or not last_name(node.func).startswith("register_"):
        return []
    return [name for value in node.args for part in walk(value) if (name := own_attribute(part))]


def _waits(function: ast.AST, stream: str) -> bool:
    """Return whether a function may make a stream wait: itself, or by a call that gets the stream."""
    calls = [node for node in own_nodes(function) if isinstance(node, ast.Call)]
    others = [call for call in calls if last_name(call.func) not in _USING]
    return any(last_name(call.func) in _WAITS or f"self.{stream}" in map(text, call.args) for call in others)
