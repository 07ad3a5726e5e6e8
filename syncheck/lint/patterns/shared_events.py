"""Lists that repeat one event, so that each record replaces those of the other items (SYN405)."""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from syncheck.findings import Finding
from syncheck.lint.locations import main_lines_of
from syncheck.lint.nodes import function_around, nodes_in, text
from syncheck.lint.patterns.context import Context
from syncheck.rules import lost_event_record
from syncheck.source.expressions import last_name

_LAST = "-1"
"""The index of the last record, which covers all others on the same stream."""
_REPEATED = re.compile(r"Event\([^\n]*\)\] *\*|\* *\[[^\n]*Event\(")
_ASKING = frozenset({"wait", "synchronize", "query", "elapsed_time"})
_CONSEQUENCE = "`*` repeats one event, so all items are the same"
_HELP = "create one event per item: `[{event} for _ in range({number})]`"


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return "Event(" in source and _REPEATED.search(source) is not None


def findings(context: Context) -> Iterator[Finding]:
    """Yield the lists whose items are recorded and waited for by index."""
    lines = main_lines_of(context.known)
    nodes = nodes_in(context.tree)
    recorded, awaited = _used_by_index(nodes)
    for node in (node for node in nodes if isinstance(node, ast.Assign)):
        event, number = _repeated(node.value)
        lists = {last_name(target) for target in node.targets} & recorded & awaited
        if event is None or number is None or not lists or node.lineno in lines:
            continue
        location = context.sites.location(
            context.sites.id_of(event, getattr(function_around(context.tree, node.lineno), "name", ""))
        )
        facts = {"event": f"an event in `{text(node.targets[0])}`", "stream": "another stream"}
        found = Finding.of(lost_event_record.RULE, location, **facts, consequence=_CONSEQUENCE)
        yield replace(found, help=_HELP.format(event=text(event), number=text(number)))


def _repeated(value: ast.expr) -> tuple[ast.Call | None, ast.expr | None]:
    """Return the event that `[Event()] * n` repeats, and how often; None for any other value."""
    match value:
        case (
            ast.BinOp(left=ast.List(elts=[ast.Call() as made]), op=ast.Mult(), right=number)
            | ast.BinOp(left=number, op=ast.Mult(), right=ast.List(elts=[ast.Call() as made]))
        ) if last_name(made.func) == "Event":
            is_single = isinstance(number, ast.Constant) and number.value == 1
            return (None, None) if is_single else (made, number)
        case _:
            return None, None


def _used_by_index(nodes: Sequence[ast.AST]) -> tuple[set[str], set[str]]:
    """Return the names of the containers whose items are recorded, and of those whose items are waited for."""
    recorded, awaited = set[str](), set[str]()
    for node in nodes:
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Subscript(value=owner), attr="record")):
                recorded.add(last_name(owner))
            case ast.Call(func=ast.Attribute(attr="record_event"), args=[ast.Subscript(value=owner)]):
                recorded.add(last_name(owner))
            case (
                ast.Call(func=ast.Attribute(value=ast.Subscript(value=owner, slice=at), attr=attr))
                | ast.Call(func=ast.Attribute(attr="wait_event" as attr), args=[ast.Subscript(value=owner, slice=at)])
            ) if attr in _ASKING | {"wait_event"} and text(at) != _LAST:
                awaited.add(last_name(owner))
            case _:
                pass
    return recorded - {""}, awaited - {""}
