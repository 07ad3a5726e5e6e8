"""Events that stand for the last use of memory, and that nothing waits for before a side stream overwrites it (SYN105).

An object of the file has the event. The stream that uses the memory records it, and the file does nothing else with it.
"""

import ast
from collections.abc import Iterator, Sequence

from syncheck.findings import Finding
from syncheck.lint.interp.functions import functions_with_nodes
from syncheck.lint.locations import main_lines_of
from syncheck.lint.nodes import (
    Method,
    children,
    entered_stream,
    is_on_stream,
    is_quoted,
    nodes_in,
    own_attribute,
    recorded_event,
    text,
    walk,
)
from syncheck.lint.patterns.context import Context
from syncheck.rules import unordered_side_stream
from syncheck.source.expressions import arguments_of, last_name

_WORDS = ("Event", ".record", "stream(")
_WAITS = frozenset({"wait_stream", "wait_event", "wait", "synchronize"})
_WRITES = frozenset({"copy_", "to", "cuda", "fill_", "zero_", "empty", "zeros", "index_copy_"})
_CURRENT = "current_stream("
_FLAW = "nothing in this file waits for `{event}`, which is recorded here after the use of what {stream} overwrites"
_HELP = "let {stream} wait for it before it overwrites or frees anything: `{stream}.wait_event({event})`"


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return all(word in source for word in _WORDS)


def findings(context: Context) -> Iterator[Finding]:
    """Yield the first record of each such event, as a warning, since another file may wait.

    With several such streams, it would be unknown which of them should wait.
    """
    fields = _fields(context.tree)
    streams = _unordered_streams(context.tree) if fields else {}
    if len(streams) != 1:
        return
    ((stream, writer),) = streams.items()
    lines = main_lines_of(context.known)
    for event, record, function in _only_recorded(context.tree, fields):
        if (
            function is not writer
            and record.lineno not in lines
            and not is_quoted(last_name(event), context.sites.text)
        ):
            flaw = _FLAW.format(event=text(event), stream=f"`{stream}`")
            advice = _HELP.format(event=text(event), stream=stream)
            yield context.sites.warning(unordered_side_stream.RULE, record, function.name, advice, flaw=flaw)


def _fields(tree: ast.Module) -> set[str]:
    """Return the attributes that the file binds to events, or declares to be events."""
    found: set[str] = set()
    for node in nodes_in(tree):
        match node:
            case ast.Assign(targets=[target], value=value) if _makes_event(value):
                found.add(own_attribute(target))
            case ast.AnnAssign(target=ast.Attribute(attr=name) | ast.Name(id=name), annotation=annotation):
                if "Event" in text(annotation) and "threading" not in text(annotation):
                    found.add(name)
            case ast.keyword(arg=str(name), value=value) if _makes_event(value):
                found.add(name)
            case _:
                pass
    return found - {""}


def _makes_event(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and last_name(value.func) == "Event" and not text(value.func).startswith("thr")


def _unordered_streams(tree: ast.Module) -> dict[str, Method]:
    """Return the side streams that write in a function without any wait, each with the function.

    Nothing but a constructor makes the stream wait.
    """
    found: dict[str, Method] = {}
    waiting: set[str] = set()
    for function, nodes in functions_with_nodes(tree):
        calls = [node for node in nodes if isinstance(node, ast.Call)]
        waits = [call for call in calls if last_name(call.func) in _WAITS]
        if function.name != "__init__":
            waiting |= {last_name(part) for call in waits for part in _parts(call)}
        for block in (node for node in nodes if isinstance(node, ast.With)):
            entered = _stream_of(block, nodes)
            if not waits and entered and any(last_name(call.func) in _WRITES for call in _calls(block)):
                found[entered] = function
    return {stream: function for stream, function in found.items() if stream.rpartition(".")[2] not in waiting}


def _parts(wait: ast.Call) -> list[ast.expr]:
    """Return the stream that a call makes wait: its owner, or the argument of `event.wait(stream)`."""
    owner = [wait.func.value] if isinstance(wait.func, ast.Attribute) else []
    return [*owner, *(wait.args if last_name(wait.func) == "wait" else [])]


def _stream_of(block: ast.With, nodes: Sequence[ast.AST]) -> str:
    """Return the attribute with the side stream that a block makes current, perhaps by a variable; "" if none."""
    entered = [item.context_expr for item in block.items]
    bound = {context.id for context in entered if isinstance(context, ast.Name)}
    if bound:
        assigned = [node for node in nodes if isinstance(node, ast.Assign)]
        entered += [node.value for node in assigned if bound & set(map(text, node.targets))]
    streams = (entered_stream(part) for context in entered for part in walk(context) if isinstance(part, ast.Call))
    return next((text(stream) for stream in streams if isinstance(stream, ast.Attribute)), "")


def _calls(block: ast.With) -> list[ast.Call]:
    return [node for node in walk(block) if isinstance(node, ast.Call)]


def _only_recorded(tree: ast.Module, fields: set[str]) -> Iterator[tuple[ast.expr, ast.Call, Method]]:
    """Yield the events that the file only records, on a current stream, each with a record and its function."""
    recorded: dict[str, tuple[ast.expr, ast.Call, Method]] = {}
    others: set[str] = set()
    for function, nodes in functions_with_nodes(tree):
        parents = {child: node for node in nodes for child in children(node)}
        for node in nodes:
            if not isinstance(node, ast.Attribute) or node.attr not in fields or not isinstance(node.ctx, ast.Load):
                continue
            outer = parents.get(node, node)
            call = outer if isinstance(outer, ast.Call) else parents.get(outer)
            if isinstance(call, ast.Call) and recorded_event(call) is node and _is_on_current(call, nodes):
                recorded.setdefault(node.attr, (node, call, function))
            elif not _is_tested(node, parents):
                others.add(node.attr)
    yield from (found for name, found in recorded.items() if name not in others)


def _is_on_current(record: ast.Call, nodes: Sequence[ast.AST]) -> bool:
    """Return whether a call records on the current stream of its caller, which it names."""
    given = arguments_of(record)
    if isinstance(record.func, ast.Attribute) and record.func.attr == "record_event":
        given = [record.func.value]
    if not given:
        return not any(isinstance(node, ast.With) and is_on_stream(node) and record in walk(node) for node in nodes)
    if _CURRENT in text(given[0]):
        return True
    bound = [node for node in nodes if isinstance(node, ast.Assign) and _CURRENT in text(node.value)]
    return any(text(target) == text(given[0]) for node in bound for target in node.targets)


def _is_tested(event: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    """Return whether an event is only compared, or used as a condition."""
    return isinstance(parents.get(event), ast.Compare | ast.If | ast.BoolOp)
