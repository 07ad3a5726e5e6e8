"""Pinned memory that the host fills again after it has only made a stream wait for the last copy from it (SYN402)."""

import ast
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from syncheck.findings import Finding
from syncheck.lint.interp.functions import own_nodes
from syncheck.lint.locations import main_lines_of
from syncheck.lint.nodes import (
    Method,
    awaited_event,
    changed_in_place,
    is_non_blocking,
    methods_of,
    own_attribute,
    own_container,
    recorded_event,
    text,
)
from syncheck.lint.patterns.context import Context
from syncheck.lint.prefilter import words_in
from syncheck.rules import event_wait_is_not_host_sync as rule
from syncheck.source.expressions import last_name

_PINNED = re.compile(r"\bpin_memory\b")
_COMPLETING = re.compile(r"synchroni|query|sleep|join|barrier|^(item|tolist|cpu|numpy)$")
_HELP = "call `{event}.synchronize()`"


class _Refill(NamedTuple):
    """A wait of a stream, the event, and the write by the host that needs a wait of the host."""

    wait: ast.Call
    event: ast.expr
    write: ast.Call | ast.Assign
    buffer: str


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return "non_blocking" in source and "pin_memory" in source and "Event" in source


def findings(context: Context) -> Iterator[Finding]:
    """Yield the waits of streams after which a method refills the memory of the last copy."""
    lines = main_lines_of(context.known)
    for kind in (node for node in context.tree.body if isinstance(node, ast.ClassDef)):
        pinned = _pinned_by(kind)
        waiting = {name for name, step in methods_of(kind).items() if any(map(_COMPLETING.search, words_in(step)))}
        for method in methods_of(kind).values() if pinned else ():
            refill = _refill(method, pinned, waiting)
            if refill is not None and not lines & {refill.wait.lineno, refill.write.lineno}:
                event = text(refill.event)
                consequence = (
                    f"the host then writes `{refill.buffer}`, in line {refill.write.lineno}, which the last copy may "
                    "still be reading"
                )
                words = {"event": event, "consequence": consequence}
                yield context.sites.warning(rule.RULE, refill.wait, method.name, _HELP.format(event=event), **words)


def _pinned_by(kind: ast.ClassDef) -> set[str]:
    """Return the attributes that a class binds to pinned memory, or to containers of it."""
    nodes = (node for method in methods_of(kind).values() for node in own_nodes(method))
    made = [node for node in nodes if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None]
    return {
        name
        for node in made
        if node.value is not None and _PINNED.search(text(node.value))
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if (name := own_container(target))
    }


def _refill(method: Method, pinned: set[str], waiting: set[str]) -> _Refill | None:
    """Return a wait of a stream that should have been one of the host; `waiting`: methods in which the host waits."""
    nodes = sorted((node for node in own_nodes(method) if hasattr(node, "lineno")), key=lambda node: node.lineno)
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    if any(_COMPLETING.search(last_name(call.func)) or own_attribute(call.func) in waiting for call in calls):
        return None
    names = pinned | _aliases(nodes, pinned)
    sent = next((call for call in calls if _sends(call, names)), None)
    for wait in calls if sent is not None else ():
        event = awaited_event(wait)
        if sent is None or event is None or wait.lineno > sent.lineno or not own_container(event):
            continue
        writes = [node for node in nodes if isinstance(node, ast.Call | ast.Assign) and _written(node, names)]
        between = [node for node in writes if wait.lineno < node.lineno <= sent.lineno]
        later = [recorded_event(call) for call in calls if call.lineno >= sent.lineno]
        records = any(text(event) == text(other) for other in later if other is not None)
        if between and records:
            return _Refill(wait, event, between[0], _written(between[0], names))
    return None


def _aliases(nodes: Sequence[ast.AST], pinned: set[str]) -> set[str]:
    """Return the variables that are bound to the pinned memory or parts of it."""
    made = (node for node in nodes if isinstance(node, ast.Assign) and own_container(node.value) in pinned)
    return {target.id for node in made for target in node.targets if isinstance(target, ast.Name)}


def _base(node: ast.expr) -> str:
    """Return the variable or the attribute of `self` that an expression is, or is a part of."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else own_container(node)


def _sends(call: ast.Call, names: set[str]) -> bool:
    """Return whether a call copies from some memory without waiting."""
    words = {word.arg: word.value for word in call.keywords}
    is_asynchronous = isinstance(flag := words.get("non_blocking"), ast.Constant) and flag.value is True
    match call:
        case ast.Call(func=ast.Attribute(attr="copy_"), args=[source, *_]):
            return is_asynchronous and _base(source) in names
        case ast.Call(func=ast.Attribute(value=source, attr="to" | "cuda")):
            return is_asynchronous and _base(source) in names
        case _:
            return False


def _written(node: ast.Call | ast.Assign, names: set[str]) -> str:
    """Return the memory, out of some, that the host writes with a call or an assignment of items; "" if none."""
    match node:
        case ast.Call():
            changed = changed_in_place(node)
            is_written = changed is not None and _base(changed) in names and not is_non_blocking(node)
            return text(changed) if changed is not None and is_written else ""
        case ast.Assign(targets=[ast.Subscript() as target]):
            return text(target) if _base(target) in names and not isinstance(node.value, ast.Constant) else ""
        case _:
            return ""
