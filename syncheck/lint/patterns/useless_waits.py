"""Waits for an event by the stream that has recorded it, which order nothing (SYN407).

Either the wait is the statement after the record in a block on a side stream, where another stream was meant to wait;
elsewhere that may be a harmless leftover. Or it is the only use of an event that the function itself records.
"""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from syncheck.findings import Finding
from syncheck.lint.interp.functions import functions_with_nodes, own_nodes
from syncheck.lint.interp.host_copies import host_copy_source
from syncheck.lint.locations import main_lines_of
from syncheck.lint.nodes import classes_of_methods, is_on_stream, methods_of, nodes_in, own_attribute, text
from syncheck.lint.patterns.context import Context
from syncheck.rules import event_waits_for_itself
from syncheck.source.expressions import last_name

_OTHER_USES = frozenset({"synchronize", "query", "elapsed_time", "wait_event", "wait", "ipc_handle"})
_HOST_HELP = "if the host is to read the copy, call `{event}.synchronize()` before"
_HELP = "let the stream that uses the results wait: `torch.cuda.current_stream().wait_event({event})` there"


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return "record" in source and (".wait(" in source or "wait_event(" in source)


def findings(context: Context) -> Iterator[Finding]:
    """Yield the waits, unless something else waits for an event of the same name."""
    lines, kinds = main_lines_of(context.known), classes_of_methods(context.tree)
    for function, nodes in functions_with_nodes(context.tree):
        for block in (node for node in nodes if isinstance(node, ast.With) and is_on_stream(node)):
            for record, wait in pairwise(map(_call, block.body)):
                event = _event_waited_for(record, wait)
                if event is None or wait is None or wait.lineno in lines:
                    continue
                if _is_handed_on(event, nodes) or _n_uses(context.tree, last_name(event)) > 1:
                    continue
                location = context.sites.location(context.sites.id_of(wait, function.name))
                found: Finding = Finding.of(
                    event_waits_for_itself.RULE, location, stream="the stream", event=f"`{text(event)}`"
                )
                yield replace(found, help=_HELP.format(event=text(event)))
        is_fetched = any(host_copy_source(node) is not None for node in nodes)
        for own, waiter, name in _waits_for_own(nodes, kinds.get(function)):
            if own.lineno not in lines:
                words = {"stream": f"stream `{waiter}`", "event": f"`{name}`"}
                yield context.sites.warning(
                    event_waits_for_itself.RULE,
                    own,
                    function.name,
                    (_HOST_HELP if is_fetched else _HELP).format(event=name),
                    **words,
                )


def _waits_for_own(nodes: Sequence[ast.AST], kind: ast.ClassDef | None) -> Iterator[tuple[ast.Call, str, str]]:
    """Yield each wait of a stream for an event that it has recorded, with the stream and the event.

    The event is a variable that the function uses for nothing else.

    Args:
        nodes: the nodes of a function.
        kind: its class, if it is a method.
    """
    for node in nodes:
        match node:
            case ast.Assign(
                targets=[ast.Name(id=name)], value=ast.Call(func=ast.Attribute(value=recorder, attr="record_event"))
            ) if isinstance(recorder, ast.Name | ast.Attribute) and _is_fixed(recorder, nodes, kind):
                uses = [each for each in nodes if isinstance(each, ast.Name) and each.id == name]
                read = [each for each in uses if isinstance(each.ctx, ast.Load)]
                waits = (_stream_waiting(each, read) for each in nodes if isinstance(each, ast.Call))
                waiting = next((found for found in waits if found is not None), None) if len(read) == 1 else None
                if waiting is not None and text(waiting[1]) == text(recorder):
                    yield waiting[0], text(recorder), name
            case _:
                pass


def _is_fixed(stream: ast.expr, nodes: Sequence[ast.AST], kind: ast.ClassDef | None) -> bool:
    """Return whether an expression is one stream throughout: a variable that is bound once, or such an attribute."""
    if isinstance(stream, ast.Name):
        given = [node for node in nodes if isinstance(node, ast.arg) and node.arg == stream.id]
        uses = [node for node in nodes if isinstance(node, ast.Name) and node.id == stream.id]
        return len(given) + sum(not isinstance(node.ctx, ast.Load) for node in uses) <= 1
    name = own_attribute(stream)
    stores = [
        method.name
        for method in (methods_of(kind).values() if kind is not None and name else ())
        for node in own_nodes(method)
        if own_attribute(node) == name and not isinstance(getattr(node, "ctx", None), ast.Load)
    ]
    return bool(name) and set(stores) <= {"__init__"}


def _stream_waiting(call: ast.Call, events: Sequence[ast.expr]) -> tuple[ast.Call, ast.expr] | None:
    """Return a call that lets a stream wait for one of some events, with the stream; None for other calls."""
    match call:
        case ast.Call(func=ast.Attribute(value=stream, attr="wait_event"), args=[event]) if event in events:
            return call, stream
        case _:
            return None


def _call(step: ast.stmt) -> ast.Call | None:
    return step.value if isinstance(step, ast.Expr) and isinstance(step.value, ast.Call) else None


def _event_waited_for(record: ast.Call | None, wait: ast.Call | None) -> ast.expr | None:
    """Return the event that one call records on the same stream on which the other one waits for it."""
    match record, wait:
        case (
            ast.Call(func=ast.Attribute(value=event, attr="record"), args=recorder, keywords=[]),
            ast.Call(func=ast.Attribute(value=awaited, attr="wait"), args=waiter, keywords=[]),
        ) if text(event) == text(awaited) and list(map(text, recorder)) == list(map(text, waiter)):
            return event
        case (
            ast.Call(func=ast.Attribute(value=event, attr="record"), args=[recorder]),
            ast.Call(func=ast.Attribute(value=waiter, attr="wait_event"), args=[awaited]),
        ) if text(event) == text(awaited) and text(recorder) == text(waiter):
            return event
        case _:
            return None


def _is_handed_on(event: ast.expr, nodes: Sequence[ast.AST]) -> bool:
    """Return whether a function uses an event other than by calling its methods, so that others may wait for it."""
    called = {node.func.value for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)}
    uses = [node for node in nodes if isinstance(node, ast.expr) and text(node) == text(event)]
    waited_for = {argument for node in nodes if isinstance(node, ast.Call) for argument in _given_to_stream(node)}
    return any(isinstance(getattr(node, "ctx", None), ast.Load) and node not in called | waited_for for node in uses)


def _given_to_stream(call: ast.Call) -> list[ast.expr]:
    return call.args if last_name(call.func) == "wait_event" else []


def _n_uses(tree: ast.Module, event: str) -> int:
    """Return how many calls in a file wait for events of some name or ask about them."""
    calls = [node for node in nodes_in(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    used = [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr in _OTHER_USES]
    return sum(event in {last_name(value) for value in (_owner(call), *call.args)} for call in used)


def _owner(call: ast.Call) -> ast.expr:
    return call.func.value if isinstance(call.func, ast.Attribute) else call.func
