"""Events that a stream waits for, but that are recorded before what the stream then uses is computed (SYN105)."""

import ast
import builtins
from collections.abc import Iterator, Sequence
from dataclasses import replace

from syncheck.findings import Finding
from syncheck.lint.interp.functions import functions_with_nodes
from syncheck.lint.interp.sites import SourceSites
from syncheck.lint.interp.unknown import makes_object
from syncheck.lint.locations import main_lines_of
from syncheck.lint.nodes import blocks_in, bound_names, entered_stream, entered_streams, text, walk
from syncheck.lint.patterns.context import Context
from syncheck.rules import unordered_side_stream
from syncheck.semantics.python_api import ALIASES, PARTS
from syncheck.source.expressions import last_name
from syncheck.source.words import words_of

_FLAW = "stream `{stream}` waits for `{event}`, which is recorded before `{name}` is computed"
_HELP = "record `{event}` after line {line}"
_ORDERING = frozenset("wait wait_stream wait_event synchronize record record_event item cpu tolist".split())
_FETCHING = frozenset("next get pop popleft load recv read acquire alloc allocate empty make new create".split())
"""Words in the names of calls whose results are not computed on the current stream."""


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return "stream(" in source and "record" in source and ("wait_event(" in source or ".wait(" in source)


def findings(context: Context) -> Iterator[Finding]:
    """Yield the blocks that use what was computed after the event for which their stream waits."""
    lines = main_lines_of(context.known)
    for function, nodes in functions_with_nodes(context.tree):
        current = {"torch.cuda.current_stream()"} | {
            name
            for node in nodes
            if isinstance(node, ast.Assign) and "current_stream(" in text(node.value)
            for name in bound_names(node)
        }
        for steps in blocks_in(function, nodes):
            for block, event, made in _outdated(steps, current):
                if not lines & set(range(block.lineno, (block.end_lineno or block.lineno) + 1)):
                    yield _finding(block, event, made, function.name, context.sites)


def _finding(block: ast.With, event: str, made: ast.Assign, function: str, sites: SourceSites) -> Finding:
    stream = entered_streams(block)[0]
    name = min(bound_names(made))
    flaw = _FLAW.format(stream=text(stream), event=event, name=name)
    where = sites.related(made, function, "it is computed here")
    help_text = _HELP.format(event=event, line=made.end_lineno or made.lineno)
    found = sites.warning(unordered_side_stream.RULE, stream, function, help_text, flaw=flaw)
    return replace(found, related=(where,))


def _outdated(steps: Sequence[ast.stmt], current: set[str]) -> Iterator[tuple[ast.With, str, ast.Assign]]:
    """Yield each such block among the statements of a body, with its event and what is computed too late."""
    for first, step in enumerate(steps):
        event = _recorded(step, current)
        for place in range(first + 1, len(steps)) if event else ():
            stream = _waiting(steps[place], event)
            if not stream:
                continue
            made = [made for made in steps[first + 1 : place] if isinstance(made, ast.Assign) and _computes(made)]
            others = [*steps[first + 1 : place], *steps[place + 1 : place + 2]]
            block = steps[place + 1] if place + 1 < len(steps) else None
            if not made or not isinstance(block, ast.With) or any(map(_orders, others)):
                continue
            used = _used(block)
            late = next((each for each in made if bound_names(each) & used), None)
            if late is not None and stream in _entered(block):
                yield block, event, late


def _recorded(step: ast.stmt, current: set[str]) -> str:
    """Return the event that a statement records on the current stream; "" for any other statement."""
    match step:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=event, attr="record"), args=args)):
            return text(event) if not args or text(args[0]) in current else ""
        case ast.Assign(targets=[target], value=ast.Call(func=ast.Attribute(value=stream, attr="record_event"))):
            return text(target) if text(stream) in current or "current_stream(" in text(stream) else ""
        case _:
            return ""


def _waiting(step: ast.stmt, event: str) -> str:
    """Return the stream that a statement makes wait for an event; "" for any other statement."""
    match step:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=stream, attr="wait_event"), args=[given])):
            return text(stream) if text(given) == event else ""
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=given, attr="wait"), args=[stream])):
            return text(stream) if text(given) == event else ""
        case _:
            return ""


def _computes(step: ast.Assign) -> bool:
    """Return whether a statement binds a variable to what a call computes from its arguments."""
    call = step.value
    if not isinstance(call, ast.Call) or not call.args or not bound_names(step) or makes_object(call):
        return False
    is_builtin = isinstance(call.func, ast.Name) and hasattr(builtins, call.func.id)
    if is_builtin or last_name(call.func) in ALIASES | PARTS:
        return False
    return not words_of(last_name(call.func)) & _FETCHING


def _orders(step: ast.stmt) -> bool:
    """Return whether a statement may order streams."""
    return any(isinstance(node, ast.Call) and last_name(node.func) in _ORDERING for node in walk(step))


def _used(block: ast.With) -> set[str]:
    """Return the variables that calls in a block get."""
    calls = [node for step in block.body for node in walk(step) if isinstance(node, ast.Call)]
    return {value.id for call in calls for value in call.args if isinstance(value, ast.Name)}


def _entered(block: ast.With) -> set[str]:
    return {text(stream) for item in block.items if (stream := entered_stream(item.context_expr)) is not None}
