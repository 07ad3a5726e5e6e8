"""Events that are recorded before the copies of the host memory of the same object, which they stand for (SYN105).

The host waits for `slot.ready` and then reads `slot.host`, so `slot.ready` must be recorded after all copies to it. It
waits for `slot.sent` before it fills `slot.host` again, so `slot.sent` must be recorded after the copies from it.
"""

import ast
from collections.abc import Iterator, Sequence
from typing import TypeGuard

from syncheck.findings import Finding
from syncheck.lint.interp.functions import functions_with_nodes
from syncheck.lint.locations import main_lines_of
from syncheck.lint.nodes import (
    blocks_in,
    entered_streams,
    is_current_stream,
    is_non_blocking,
    is_on_stream,
    nodes_in,
    once,
    recorded_event,
    text,
    viewed,
    walk,
)
from syncheck.lint.patterns.context import Context
from syncheck.rules import unordered_side_stream
from syncheck.source.expressions import arguments_of, last_name

_VIEWS = frozenset({"view", "view_as", "reshape", "flatten", "narrow", "squeeze", "unsqueeze", "detach"})
_HOST_READS = frozenset({"numpy", "tolist", "item", "tobytes"})
_HOST_WAITS = frozenset({"synchronize", "query"})
_FLAW_TO = "`{event}` is recorded before the copy to `{memory}` in line {line}, which it stands for"
_FLAW_FROM = "`{event}` is recorded before the copy from `{memory}` in line {line}, which it stands for"
_HELP = "record it after that copy"


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return ".record" in source and "non_blocking" in source


def findings(context: Context) -> Iterator[Finding]:
    """Yield the records."""
    lines = main_lines_of(context.known)
    for function, nodes in functions_with_nodes(context.tree):
        records = [text(event) for node in nodes if (event := recorded_event(node)) is not None]
        for steps in blocks_in(function, nodes) if records else ():
            streams = {text(s) for node in nodes if _has_body(node, steps) for s in entered_streams(node)}
            for index, step in enumerate(steps):
                record = _record(step)
                event = recorded_event(record) if record is not None else None
                if record is None or not isinstance(event, ast.Attribute) or records.count(text(event)) > 1:
                    continue
                if (
                    record.lineno in lines
                    or not _is_on(record, streams)
                    or event.attr not in _awaited_by_host(context.tree)
                ):
                    continue
                is_first = bool(streams) and not index
                flaw = next(_flaws(event, steps[index + 1 :], nodes, context.tree, is_first=is_first), "")
                if flaw:
                    yield context.sites.warning(unordered_side_stream.RULE, record, function.name, _HELP, flaw=flaw)


def _flaws(
    event: ast.Attribute, after: Sequence[ast.stmt], nodes: Sequence[ast.AST], tree: ast.Module, *, is_first: bool
) -> Iterator[str]:
    """Yield a text about each copy after the record of an event that stands for it.

    Args:
        event: the event.
        after: the statements after the record.
        nodes: the nodes of the function.
        tree: the file.
        is_first: whether a block on a side stream begins with the record.
    """
    for memory, copy in _copies(event, after, nodes):
        if memory.attr in _read_by_host(tree):
            yield _FLAW_TO.format(event=text(event), memory=text(memory), line=copy.lineno)
    for memory, copy in _uploads(event, after, _copying_functions(tree)) if is_first else ():
        if memory.attr in _filled_by_host(tree):
            yield _FLAW_FROM.format(event=text(event), memory=text(memory), line=copy.lineno)


def _has_body(node: ast.AST, steps: list[ast.stmt]) -> TypeGuard[ast.With]:
    return isinstance(node, ast.With) and node.body is steps


def _record(step: ast.stmt) -> ast.Call | None:
    """Return the call of a statement that records an event, perhaps only if there is one."""
    match step:
        case ast.Expr(value=ast.Call() as call) if recorded_event(call) is not None:
            return call
        case ast.If(body=[only], orelse=[]):
            return _record(only)
        case _:
            return None


def _is_on(record: ast.Call, streams: set[str]) -> bool:
    """Return whether an event is recorded on the current stream.

    Args:
        record: the call.
        streams: the side stream of the block around it; empty if there is no such block.
    """
    given = arguments_of(record)
    if isinstance(record.func, ast.Attribute) and record.func.attr == "record_event":
        given = [record.func.value]
    return all(text(stream) in streams or (is_current_stream(stream) and not streams) for stream in given)


def _copies(
    event: ast.Attribute, steps: Sequence[ast.stmt], nodes: Sequence[ast.AST]
) -> Iterator[tuple[ast.Attribute, ast.Call]]:
    """Yield the memory beside an event that statements copy to on the same stream, up to a wait for the event.

    Copies before a record of another event of the same object are left out.
    """
    if any(_records_other(step, event) for step in steps):
        return
    bound = {text(node.targets[0]): node.value for node in nodes if isinstance(node, ast.Assign)}
    for step in steps:
        if isinstance(step, ast.With) and is_on_stream(step):
            return
        for call in (node for node in walk(step) if isinstance(node, ast.Call)):
            owner = call.func.value if isinstance(call.func, ast.Attribute) else call
            name = last_name(call.func)
            if name in _HOST_WAITS and text(owner) == text(event):
                return
            memory = viewed(bound.get(text(owner), owner), _VIEWS)
            is_copy = name == "copy_" and is_non_blocking(call)
            if is_copy and isinstance(memory, ast.Attribute) and text(memory.value) == text(event.value) != "self":
                yield memory, call


def _uploads(
    event: ast.Attribute, steps: Sequence[ast.stmt], functions: frozenset[str]
) -> Iterator[tuple[ast.Attribute, ast.Call]]:
    """Yield the memory beside an event that statements copy from, themselves or in a function, before another record.

    Args:
        event: the event.
        steps: the statements after its record, which is the first in a block on a side stream.
        functions: the names of functions in the file that make copies without waiting.
    """
    if text(event.value) == "self" or any(_records(node) for step in steps for node in walk(step)):
        return
    for call in (node for step in steps for node in walk(step) if isinstance(node, ast.Call)):
        if not is_non_blocking(call) and last_name(call.func) not in functions:
            continue
        owner = [call.func.value] if isinstance(call.func, ast.Attribute) and last_name(call.func) != "copy_" else []
        for memory in (viewed(each, _VIEWS) for each in (*owner, *call.args)):
            if isinstance(memory, ast.Attribute) and text(memory.value) == text(event.value):
                yield memory, call


@once
def _copying_functions(tree: ast.Module) -> frozenset[str]:
    """Return the names of the functions in a file that make copies without waiting."""
    calls = {node for node in nodes_in(tree) if isinstance(node, ast.Call) and is_non_blocking(node)}
    return frozenset(function.name for function, nodes in functions_with_nodes(tree) if not calls.isdisjoint(nodes))


def _records(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) in {"record", "record_event"}


@once
def _filled_by_host(tree: ast.Module) -> frozenset[str]:
    """Return the attributes with memory that the host writes, or that is pinned."""
    found = set[str]()
    for node in nodes_in(tree):
        match node:
            case (
                ast.Assign(targets=[ast.Attribute(attr=name)], value=ast.expr() as value)
                | ast.AnnAssign(target=ast.Attribute(attr=name), value=ast.expr() as value)
            ) if "pin_memory" in text(value):
                found.add(name)
            case ast.Assign(targets=[ast.Subscript(value=ast.Attribute(attr=name))]):
                found.add(name)
            case ast.Call(func=ast.Attribute(value=ast.Attribute(attr=name), attr="numpy")):
                found.add(name)
            case _:
                pass
    return frozenset(found)


def _records_other(step: ast.stmt, event: ast.Attribute) -> bool:
    """Return whether a statement records another event of the same object."""
    record = _record(step)
    other = recorded_event(record) if record is not None else None
    return isinstance(other, ast.Attribute) and text(other.value) == text(event.value)


@once
def _awaited_by_host(tree: ast.Module) -> frozenset[str]:
    """Return the attributes with events that the host waits for, or tests."""
    calls = (node.func for node in nodes_in(tree) if isinstance(node, ast.Call))
    events = (func.value for func in calls if isinstance(func, ast.Attribute) and func.attr in _HOST_WAITS)
    return frozenset(event.attr for event in events if isinstance(event, ast.Attribute))


@once
def _read_by_host(tree: ast.Module) -> frozenset[str]:
    """Return the attributes with memory that the host reads."""
    calls = (node.func for node in nodes_in(tree) if isinstance(node, ast.Call))
    memory = (viewed(f.value, _VIEWS) for f in calls if isinstance(f, ast.Attribute) and f.attr in _HOST_READS)
    return frozenset(node.attr for node in memory if isinstance(node, ast.Attribute))
