"""Pinned slots that the host fills again although nothing in the file lets it wait for their last upload (SYN302).

An event is recorded after each upload, but the host never waits for it.
"""

import ast
import re
from collections.abc import Iterator, Sequence

from syncheck.findings import Finding
from syncheck.lint.interp.functions import functions_with_nodes
from syncheck.lint.locations import main_lines_of
from syncheck.lint.nodes import (
    VIEWS,
    changed_in_place,
    is_non_blocking,
    nodes_in,
    own_attribute,
    pinned_attributes,
    recorded_event,
    viewed,
)
from syncheck.lint.patterns.context import Context
from syncheck.rules import host_write_in_flight
from syncheck.source.expressions import last_name

_COMPLETING = re.compile(r"synchroni|\.query\(|\bjoin\(|barrier|\.(?:item|tolist|cpu)\(")
"""Calls for which the host may wait until an upload is complete."""
_HELP = "before the slot is filled again, call `synchronize()` on the event that is recorded after its upload"


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    words = ("non_blocking", "pin_memory", "Event(", ".record")
    return all(word in source for word in words) and _COMPLETING.search(source) is None


def findings(context: Context) -> Iterator[Finding]:
    """Yield the first write of each function that fills a slot and then uploads it.

    They are warnings, since another file may wait.
    """
    functions = functions_with_nodes(context.tree)
    pinned = pinned_attributes(nodes_in(context.tree))
    uploading = {function.name: _uploaded(nodes, pinned) for function, nodes in functions if _records(nodes)}
    lines = main_lines_of(context.known)
    for function, nodes in functions if pinned else ():
        calls = [node for node in nodes if isinstance(node, ast.Call)]
        for write, name in _writes(nodes, pinned):
            later = [call for call in calls if call.lineno > write.lineno]
            is_sent = name in _uploaded(later, pinned) and _records(nodes)
            is_sent = is_sent or any(name in uploading.get(last_name(call.func), ()) for call in later)
            if is_sent and function.name != "__init__" and write.lineno not in lines:
                facts = {"tensor": f"`{name}`", "stream": "the stream of its last upload", "verb": "reading"}
                yield context.sites.warning(host_write_in_flight.RULE, write, function.name, _HELP, **facts)
                break


def _records(nodes: Sequence[ast.AST]) -> bool:
    return any(recorded_event(node) is not None for node in nodes)


def _attribute(node: ast.expr) -> str:
    """Return the attribute that an expression is a view of; "" for other expressions."""
    source = viewed(node, VIEWS)
    return source.attr if isinstance(source, ast.Attribute) else ""


def _uploaded(nodes: Sequence[ast.AST], pinned: set[str]) -> set[str]:
    """Return the pinned attributes that some calls copy to a GPU without waiting."""
    found: set[str] = set()
    for node in nodes:
        match node:
            case ast.Call(func=ast.Attribute(value=source, attr="to" | "cuda")) if is_non_blocking(node):
                found.add(_attribute(source))
            case ast.Call(func=ast.Attribute(attr="copy_"), args=[source, *_]) if is_non_blocking(node):
                found.add(_attribute(source))
            case _:
                pass
    return found & pinned


def _writes(nodes: Sequence[ast.AST], pinned: set[str]) -> Iterator[tuple[ast.Call | ast.Assign, str]]:
    """Yield the writes of the host to pinned attributes of other objects, such as slots."""
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Subscript() as target]):
                written: ast.expr | None = target
            case ast.Call() if not is_non_blocking(node):
                written = changed_in_place(node)
            case _:
                continue
        if written is not None and _attribute(written) in pinned and not own_attribute(viewed(written, VIEWS)):
            yield node, _attribute(written)
