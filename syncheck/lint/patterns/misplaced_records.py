"""Events that stand for the copies of a block on a side stream, but are recorded after it, on another one (SYN105)."""

import ast
from collections.abc import Iterator, Sequence
from itertools import pairwise

from syncheck.findings import Finding
from syncheck.lint.interp.functions import block_nodes, functions_with_nodes
from syncheck.lint.locations import lines_of
from syncheck.lint.nodes import (
    WAITS,
    blocks_in,
    changed_in_place,
    classes_of_methods,
    entered_stream,
    entered_streams,
    is_current_stream,
    is_non_blocking,
    methods_of,
    names,
    nodes_in,
    own_attribute,
    stored_names,
    text,
    walk,
)
from syncheck.lint.patterns.context import Context
from syncheck.rules import unordered_side_stream
from syncheck.source.expressions import arguments_of, has_line, last_name

_JOINS = frozenset({"record", "record_event"})
"""Calls that stand for the work of the stream of a block. So does one that gets the stream."""
_FLAW = "`{event}` is recorded on the current stream, after the block on `{stream}` whose copies it stands for"
_HELP = "record it on that stream: `{event}.record({stream})`"


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file. An event that is timed may be recorded on any stream."""
    return ".record(" in source and "non_blocking" in source and "elapsed_time(" not in source


def findings(context: Context) -> Iterator[Finding]:
    """Yield the records."""
    lines = lines_of(context.known)
    for function, nodes in functions_with_nodes(context.tree):
        for steps in blocks_in(function, nodes):
            for block, step in pairwise(step for step in steps if not _makes_event(step)):
                record = _record(step)
                stream = _copying_stream(block) or _stream_of_method(
                    block, classes_of_methods(context.tree).get(function)
                )
                is_known = any(has_line(step, line) or has_line(block, line) for line in lines)
                if record is None or stream is None or is_known:
                    continue
                event = record.func.value if isinstance(record.func, ast.Attribute) else record
                stands_for = _stands_for(event, block, nodes) or _is_awaited_by_host(event, stream, nodes)
                if stands_for and not _is_awaited_by(stream, event, context.tree):
                    words = {"event": text(event), "stream": text(stream)}
                    flaw, advice = _FLAW.format(**words), _HELP.format(**words)
                    yield context.sites.warning(unordered_side_stream.RULE, record, function.name, advice, flaw=flaw)


def _makes_event(step: ast.stmt) -> bool:
    return isinstance(step, ast.Assign) and isinstance(step.value, ast.Call) and last_name(step.value.func) == "Event"


def _record(step: ast.stmt) -> ast.Call | None:
    """Return the call of a statement that records an event on the current stream."""
    match step:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="record"), args=given, keywords=[]) as call):
            return call if all(map(is_current_stream, given)) else None
        case ast.If(body=[only], orelse=[]):
            return _record(only)
        case _:
            return None


def _copying_stream(block: ast.stmt) -> ast.expr | None:
    """Return the stream of a block that starts copies; None for any other statement, and for the current stream."""
    if not isinstance(block, ast.With):
        return None
    stream = next(iter(entered_streams(block)), None)
    if stream is None or "current_stream" in text(stream):
        return None
    calls = [node for node in block_nodes(block) if isinstance(node, ast.Call)]
    others = [call for call in calls if last_name(call.func) != "record_stream"]
    is_joined = any(last_name(call.func) in _JOINS or text(stream) in map(text, call.args) for call in others)
    return stream if any(map(is_non_blocking, calls)) and not is_joined else None


def _stream_of_method(step: ast.stmt, kind: ast.ClassDef | None) -> ast.expr | None:
    """Return the stream on which a method starts copies, if a statement calls it; None for any other statement."""
    methods = methods_of(kind) if kind is not None else {}
    call = step.value if isinstance(step, ast.Expr) else None
    method = methods.get(own_attribute(call.func)) if isinstance(call, ast.Call) else None
    blocks = [node for node in walk(method) if isinstance(node, ast.With)] if method is not None else []
    streams = [stream for block in blocks for stream in entered_streams(block)]
    if method is None or len(streams) != 1 or not own_attribute(streams[0]):
        return None
    if any(isinstance(node, ast.Call) and last_name(node.func) in WAITS for node in walk(method)):
        return None  # it may order the streams itself
    called = [node for block in blocks for node in block_nodes(block) if isinstance(node, ast.Call)]
    inner = [methods[name] for node in called if (name := own_attribute(node.func)) in methods]
    nodes = [node for each in inner for node in walk(each) if isinstance(node, ast.Call)] + called
    is_joined = any(last_name(node.func) in _JOINS for node in nodes)
    return streams[0] if any(map(is_non_blocking, nodes)) and not is_joined else None


def _stands_for(event: ast.expr, block: ast.stmt, nodes: Sequence[ast.AST]) -> bool:
    """Return whether an event leaves a function with what a block has copied, or has the index of its memory.

    Args:
        event: the event.
        block: the block, or the call of a method with the block.
        nodes: the function.
    """
    inside = walk(block)
    if isinstance(event, ast.Subscript):
        indices = [node.slice for node in inside if isinstance(node, ast.Subscript)]
        if isinstance(block, ast.Expr) and isinstance(block.value, ast.Call):
            indices = block.value.args
        return text(event.slice) in map(text, indices)
    written = (changed_in_place(node) for node in inside)
    bound = stored_names(inside).union(*(names(target) for target in written if target is not None)) - {"self"}
    values = (node.value for node in nodes if isinstance(node, ast.Return | ast.Expr | ast.Yield))
    groups = (part for value in values if value is not None for part in walk(value))
    given = [group for group in groups if isinstance(group, ast.Tuple | ast.Call) and names(group) & bound]
    return any(text(part) == text(event) for group in given for part in _parts(group))


def _is_awaited_by_host(event: ast.expr, stream: ast.expr, nodes: Sequence[ast.AST]) -> bool:
    """Return whether the host waits in a function for an event, and nothing after it mentions a stream."""
    after = [node for node in nodes if getattr(node, "lineno", 0) > event.lineno]
    owners = {text(node.value) for node in after if isinstance(node, ast.Attribute) and node.attr == "synchronize"}
    is_mentioned = any(isinstance(node, ast.expr) and text(node) == text(stream) for node in after)
    return isinstance(event, ast.Name) and event.id in owners and not is_mentioned


def _parts(value: ast.Tuple | ast.Call) -> list[ast.expr]:
    """Return the elements of a tuple, or the arguments of a call."""
    return value.elts if isinstance(value, ast.Tuple) else arguments_of(value)


def _is_awaited_by(stream: ast.expr, event: ast.expr, tree: ast.Module) -> bool:
    """Return whether the stream of the block waits for events of this name: then it stands for the other's work."""
    for node in nodes_in(tree):
        match node:
            case (
                ast.Call(func=ast.Attribute(value=waiter, attr="wait_event"), args=[awaited])
                | ast.Call(func=ast.Attribute(value=awaited, attr="wait"), args=[waiter])
            ) if last_name(waiter) == last_name(stream) and _base_name(awaited) == _base_name(event):
                return True
            case ast.With() if any(
                last_name(entered_stream(item.context_expr)) == last_name(stream) for item in node.items
            ) and any(_waits_here(inner, event) for inner in block_nodes(node)):
                return True
            case _:
                pass
    return False


def _waits_here(node: ast.AST, event: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=awaited, attr="wait"), args=[]):
            return _base_name(awaited) == _base_name(event)
        case _:
            return False


def _base_name(event: ast.expr) -> str:
    """Return the last name of an event, or of the list that it is in."""
    while isinstance(event, ast.Subscript):
        event = event.value
    return last_name(event)
