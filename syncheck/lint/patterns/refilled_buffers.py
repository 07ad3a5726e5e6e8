"""Buffers that a loop fills again while the collective of the iteration before still uses them (SYN602)."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace

from syncheck.findings import Finding
from syncheck.lint.interp.functions import functions_with_nodes
from syncheck.lint.locations import lines_of
from syncheck.lint.nodes import VIEWS, changed_in_place, names, stored_names, text, viewed, walk
from syncheck.lint.patterns.context import Context
from syncheck.lint.patterns.pending_writes import can_start, is_start, may_wait_for_collective
from syncheck.rules import collective_buffer_modified
from syncheck.source.expressions import arguments_of, last_name

_KEEPING = frozenset({"append", "appendleft", "add", "extend"})
_COALESCING = "coalescing"
_STARTED = "the collective is started here, in each iteration"
_HELP = "before this line, wait for the handle of the previous iteration, or fill another buffer"


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return can_start(source)


def findings(context: Context) -> Iterator[Finding]:
    """Yield the writes. They are warnings, since a loop may run once."""
    lines = lines_of(context.known)
    for function, nodes in functions_with_nodes(context.tree):
        for loop in (node for node in nodes if isinstance(node, ast.For | ast.While)):
            for start, write, buffer in _refills(loop):
                if not lines & {start.lineno, write.lineno}:
                    lines.add(write.lineno)
                    facts = {"tensor": f"`{buffer}`", "collective": f"`{last_name(start.func)}`"}
                    found = context.sites.warning(collective_buffer_modified.RULE, write, function.name, _HELP, **facts)
                    started = context.sites.related(start, function.name, _STARTED)
                    yield replace(found, related=(started,))


def _refills(loop: ast.For | ast.While) -> Iterator[tuple[ast.Call, ast.Call | ast.Assign, str]]:
    """Yield each collective that a loop starts, with the earlier write of its buffer, unless the loop may wait."""
    nodes = [node for step in loop.body for node in walk(step)]
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    starts = [call for call in calls if is_start(call)]
    called = {last_name(call.func) for call in calls} | {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    if not starts or may_wait_for_collective(called) or _passes_handles(nodes, starts):
        return
    if any(isinstance(node, ast.With) and _COALESCING in text(node.items[0].context_expr) for node in nodes):
        return
    bound = stored_names([*nodes, *(walk(loop.target) if isinstance(loop, ast.For) else ())])
    conditional = {inner for node in nodes if isinstance(node, ast.If) for inner in walk(node)}
    for start in starts:
        given = arguments_of(start)
        buffers = {name for each in given if (name := _buffer(each, bound))}
        for node in nodes:
            written = _written(node) if isinstance(node, ast.Call | ast.Assign) and start not in conditional else ""
            if isinstance(node, ast.Call | ast.Assign) and written in buffers and node.lineno < start.lineno:
                yield start, node, written
                break


def _buffer(given: ast.expr, bound: set[str]) -> str:
    """Return the memory that a collective gets in each iteration, as written and without its views; "" if it changes.

    Args:
        given: the argument.
        bound: the variables that change in the loop.
    """
    source = viewed(given, VIEWS)
    if not isinstance(source, ast.Name | ast.Attribute) or names(source) & bound:
        return ""
    indices = [node.slice for node in walk(given) if isinstance(node, ast.Subscript)]
    begins = [index.lower if isinstance(index, ast.Slice) else index for index in indices]
    return "" if any(begin is not None and names(begin) & bound for begin in begins) else text(source)


def _passes_handles(nodes: Sequence[ast.AST], starts: Sequence[ast.Call]) -> bool:
    """Return whether a loop passes the handles that it keeps to other code, which may wait for them."""
    kept: set[str] = set()
    for node in nodes:
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr=name), args=[value]) if name in _KEEPING:
                kept |= {text(owner)} if any(start in walk(value) for start in starts) else set()
            case ast.Assign(targets=targets, value=value) if value in starts:
                kept |= set(map(text, targets))
            case _:
                pass
    others = (node for node in nodes if isinstance(node, ast.Call) and last_name(node.func) not in _KEEPING)
    given = (text(value) for call in others for value in arguments_of(call))
    return any(value in kept for value in given)


def _written(node: ast.Call | ast.Assign) -> str:
    """Return the memory that a call or an assignment of items writes, as written and without its views."""
    match node:
        case ast.Assign(targets=[ast.Subscript(value=target)]):
            return text(viewed(target, VIEWS))
        case ast.Call():
            out = next((word.value for word in node.keywords if word.arg == "out"), None)
            changed = changed_in_place(node)
            written = out if changed is None else changed
            return text(viewed(written, VIEWS)) if written is not None else ""
        case _:
            return ""
