"""Events that are unpacked together with the memory that they stand for, and ignored (SYN105).

A class keeps `(done, blocks)` until the copy from the blocks is complete. A method that takes the blocks into use again
with `done, blocks = self.leaving.popleft()` has to let its stream wait for `done`.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping

from syncheck.findings import Finding
from syncheck.lint.interp.functions import own_nodes
from syncheck.lint.interp.unknown import host_waits_in, waits_in
from syncheck.lint.locations import main_lines_of
from syncheck.lint.nodes import (
    Method,
    bound_names,
    callers_among,
    children,
    classes_in,
    is_on_stream,
    methods_of,
    own_attribute,
    recorded_event,
    walk,
)
from syncheck.lint.patterns.context import Context
from syncheck.rules import unordered_side_stream
from syncheck.source.expressions import last_name

_POPS = frozenset({"pop", "popleft"})
_CHANGES = _POPS | {"append", "clear"}
_FLAW = "the event {event}is taken out of `self.{container}` and ignored: nothing waits for the work before it"
_HELP = "let the stream that uses the rest wait for it: `torch.cuda.current_stream().wait_event({event})`"
_IGNORED = "_"


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return ".pop" in source and ".append((" in source and ".record" in source


def findings(context: Context) -> Iterator[Finding]:
    """Yield the calls that take out such events."""
    lines = main_lines_of(context.known)
    for kind in classes_in(context.tree):
        methods = methods_of(kind)
        places = sorted(_places_of_events(methods.values()))
        ignored = [each for each in places if not any(_is_read(method, *each) for method in methods.values())]
        for name, method in methods.items() if ignored else ():
            if waits_in(method) or _enters_stream(method) or any(map(host_waits_in, _callers(methods, name))):
                continue
            for container, place in ignored:
                for taken, event, call in _unpacked(method, place):
                    if taken == container and call.lineno not in lines:
                        shown = "" if event == _IGNORED else f"`{event}` "
                        flaw = _FLAW.format(event=shown, container=container)
                        advice = _HELP.format(event="done" if event == _IGNORED else event)
                        yield context.sites.warning(unordered_side_stream.RULE, call, name, advice, flaw=flaw)


def _callers(methods: Mapping[str, Method], name: str) -> list[Method]:
    """Return the methods that mention a method of the same object, or one that mentions it, and so on."""
    found: dict[str, Method] = {}
    waiting = [name]
    for each in waiting:  # the list grows during iteration
        new = [method for method in callers_among(methods.values(), each) if method.name not in found]
        found |= {method.name: method for method in new}
        waiting += [method.name for method in new]
    return list(found.values())


def _enters_stream(method: Method) -> bool:
    """Return whether a method makes a stream current, which may be the one that has recorded the event."""
    return any(isinstance(node, ast.With) and is_on_stream(node) for node in walk(method))


def _places_of_events(methods: Iterable[Method]) -> set[tuple[str, int]]:
    """Return the containers to which a class appends tuples with a recorded event, with its place in the tuple.

    A method that appends one and lets the host wait leaves nothing to wait for.
    """
    found = set[tuple[str, int]]()
    for method in (each for each in methods if "synchronize" not in _called(each)):
        nodes = list(own_nodes(method))
        recorded = {name for node in nodes for name in _recorded(node)}
        for node in nodes if recorded else ():
            match node:
                case ast.Call(func=ast.Attribute(value=owner, attr="append"), args=[ast.Tuple(elts=parts)]):
                    events = (place for place, part in enumerate(parts) if getattr(part, "id", "") in recorded)
                    found.update((own_attribute(owner), place) for place in events if own_attribute(owner))
                case _:
                    pass
    return found


def _called(method: Method) -> set[str]:
    return {last_name(node.func) for node in walk(method) if isinstance(node, ast.Call)}


def _recorded(node: ast.AST) -> set[str]:
    """Return the variables of the events that a call records, or that an assignment binds to a new record."""
    match node:
        case ast.Assign(value=ast.Call(func=ast.Attribute(attr="record_event"), args=[])):
            return bound_names(node)
        case _:
            event = recorded_event(node)
            return {event.id} if isinstance(event, ast.Name) else set()


def _is_read(method: Method, container: str, place: int) -> bool:
    """Return whether a method may use the event of an item: it takes one out, or reads items in other ways."""
    nodes = list(own_nodes(method))
    parents = {child: node for node in nodes for child in children(node)}
    taken = 0
    attributes = [node for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)]
    for use in (node for node in attributes if own_attribute(node) == container):
        match parents.get(use):
            case ast.Attribute(attr=name) if name in _CHANGES:
                taken += name in _POPS
            case ast.If() | ast.While() | ast.UnaryOp() | ast.BoolOp():
                pass
            case ast.Call(func=ast.Name(id="len")):
                pass
            case _:
                return True
    return taken > [each for each, _, _ in _unpacked(method, place)].count(container)


def _unpacked(method: Method, place: int) -> Iterator[tuple[str, str, ast.Call]]:
    """Yield the containers of `self` from which a method takes tuples whose part at a place it ignores.

    With each come the variable of that part and the call. Another part must be passed on or returned.
    """
    nodes = list(own_nodes(method))
    read = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    calls = (node for node in nodes if isinstance(node, ast.Call))
    passed = [argument for call in calls for argument in call.args]
    passed += [node.value for node in nodes if isinstance(node, ast.Return) and node.value is not None]
    given = {inner.id for value in passed for inner in walk(value) if isinstance(inner, ast.Name)}
    for node in nodes:
        match node:
            case ast.Assign(
                targets=[ast.Tuple(elts=parts)], value=ast.Call(func=ast.Attribute(value=owner, attr=name)) as call
            ) if name in _POPS and own_attribute(owner) and place < len(parts):
                names = [getattr(part, "id", "") for part in parts]
                if names[place] and names[place] not in read and not given.isdisjoint(names):
                    yield own_attribute(owner), names[place], call
            case _:
                pass
