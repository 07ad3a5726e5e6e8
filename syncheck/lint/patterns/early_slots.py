"""Pinned slots that a method hands out, and another one waits for only when it uploads them (SYN302).

`acquire` returns `self.slots[k].numpy()`, which its caller fills. `commit` waits for `self.uploaded[k]` and then copies
the slot to the GPU: by then, the caller has written over what the copy before may still read.
"""

import ast
from collections.abc import Iterator

from syncheck.findings import Finding
from syncheck.lint.interp.functions import own_nodes
from syncheck.lint.locations import main_lines_of
from syncheck.lint.nodes import (
    Method,
    callers_among,
    classes_in,
    is_non_blocking,
    methods_of,
    own_attribute,
    own_container,
    recorded_event,
    text,
    walk,
)
from syncheck.lint.patterns.context import Context
from syncheck.rules import host_write_in_flight

_HELP = "wait for `self.{event}` in `{giver}`, before the slot is handed out, instead of in `{sender}`"


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return "pin_memory" in source and "non_blocking" in source and ".synchronize()" in source and "self." in source


def findings(context: Context) -> Iterator[Finding]:
    """Yield the places where slots are handed out."""
    lines = main_lines_of(context.known)
    for kind in classes_in(context.tree):
        methods = methods_of(kind)
        for sender in methods.values():
            for slots, event in sorted(_sent_after_wait(sender, methods)):
                others = [each for each in methods.values() if each is not sender and _waits_for(each, event, methods)]
                given = [] if any(not _is_helper(each, sender, methods) for each in others) else methods.values()
                for giver in given:
                    place = _hands_out(giver, slots) if giver is not sender and "pin" in _made(kind, slots) else None
                    if place is not None and place.lineno not in lines:
                        facts = {
                            "tensor": f"`self.{slots}`",
                            "stream": "the stream of its last copy",
                            "verb": "reading",
                        }
                        advice = _HELP.format(event=event, giver=giver.name, sender=sender.name)
                        yield context.sites.warning(host_write_in_flight.RULE, place, giver.name, advice, **facts)


def _sent_after_wait(method: Method, methods: dict[str, Method]) -> set[tuple[str, str]]:
    """Return the containers of slots that a method copies from after a wait for their events, with those of events.

    The method records the same events after the copies.
    """
    nodes = sorted((node for node in own_nodes(method) if isinstance(node, ast.Call)), key=lambda node: node.lineno)
    events = {name for node in nodes if (name := _container(recorded_event(node), method))}
    found = set[tuple[str, str]]()
    for event in events:
        waits = [node.lineno for node in nodes if _is_wait(node, event, method, methods)]
        for copy in (node for node in nodes if is_non_blocking(node) and waits and node.lineno > waits[0]):
            parts = [part for source in copy.args for part in walk(source) if isinstance(part, ast.Subscript)]
            found |= {(slots, event) for part in parts if (slots := own_container(part)) and slots != event}
    return found


def _is_wait(node: ast.Call, event: str, method: Method, methods: dict[str, Method]) -> bool:
    """Return whether a call makes the host wait for an item of a container, itself or in a method of the object."""
    match node.func:
        case ast.Attribute(value=awaited, attr="synchronize"):
            return _container(awaited, method) == event
        case ast.Attribute(attr=name) if own_attribute(node.func) and name in methods and methods[name] is not method:
            return _waits_for(methods[name], event, {})
        case _:
            return False


def _waits_for(method: Method, event: str, methods: dict[str, Method]) -> bool:
    calls = [node for node in own_nodes(method) if isinstance(node, ast.Call)]
    return any(_is_wait(call, event, method, methods) for call in calls)


def _is_helper(method: Method, sender: Method, methods: dict[str, Method]) -> bool:
    """Return whether only one method of the class calls another one."""
    return callers_among(methods.values(), method.name) == [sender]


def _container(event: ast.expr | None, method: Method) -> str:
    """Return the container of `self` that an event is an item of, as a variable or not; "" if there is none."""
    if isinstance(event, ast.Name):
        assigned = [node for node in own_nodes(method) if isinstance(node, ast.Assign)]
        values = [node.value for node in assigned if event.id in map(text, node.targets)]
        event = values[0] if len(values) == 1 else None
    return own_container(event) if isinstance(event, ast.Subscript) else ""


def _hands_out(method: Method, slots: str) -> ast.Return | None:
    """Return the statement that returns a slot, or an array of its memory."""
    for node in own_nodes(method):
        value = node.value if isinstance(node, ast.Return) else None
        match value:
            case ast.Call(func=ast.Attribute(value=given, attr="numpy")):
                value = given
            case _:
                pass
        if isinstance(node, ast.Return) and isinstance(value, ast.Subscript) and own_container(value) == slots:
            return node
    return None


def _made(kind: ast.ClassDef, attribute: str) -> str:
    """Return the source of the values that a class assigns to an attribute."""
    assigned = [node for node in walk(kind) if isinstance(node, ast.Assign)]
    return " ".join(text(node.value) for node in assigned if attribute in map(own_attribute, node.targets))
