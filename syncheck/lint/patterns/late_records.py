"""Events that a method waits for before another method records them in the same pass (SYN105).

`forward` calls `load`, which enqueues the copies of all layers on a side stream, and then `compute`, which records one
event per layer. A wait in `load` is for the event of the previous call, or for none at all in the first call, so a
copy into a buffer that the layers share overwrites what `compute` has not read yet.
"""

import ast
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from syncheck.findings import Finding
from syncheck.lint.interp.functions import own_nodes
from syncheck.lint.interp.sites import SourceSites
from syncheck.lint.nodes import Method, methods_of, names, nodes_in, own_attribute, recorded_event, text, walk
from syncheck.lint.patterns.context import Context
from syncheck.rules import unordered_side_stream
from syncheck.rules.model import Family
from syncheck.source.expressions import has_line, last_name

_SIZES = frozenset({"shape"})
"""Attributes in an index that are the same in all iterations."""

_FLAW = (
    "`{stream}` waits here for an event of an earlier call: `{caller}` calls `{recorder}`, which records it, only "
    "after `{waiter}`"
)
_RECORDED = "the event is recorded here"
_HELP = "record each event before the wait for it is enqueued: launch the copy for a layer in the loop of `{recorder}`"


class _Wait(NamedTuple):
    """A wait in a loop of a method for one of several events of the object.

    Attributes:
        call: the call that waits, and `loop`: the loop.
        events: the attribute that contains the events.
        key: the index of the event.
        stream: the source of the waiting stream.
        sent: the attributes with the events that the loop records.
    """

    call: ast.Call
    loop: ast.For
    events: str
    key: ast.expr
    stream: str
    sent: frozenset[str] = frozenset()


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return "Event(" in source and "Stream(" in source and "copy_(" in source and (".wait" in source)


def findings(context: Context) -> Iterator[Finding]:
    """Yield the waits for events that are recorded only after all these waits are enqueued."""
    families = {Family.RACE, Family.LIFETIME}
    races = [finding for finding in context.known if finding.rule.family in families]
    lines = {location.frame.line for finding in races for location in (finding.location, *finding.related)}
    classes = {node.name: node for node in context.tree.body if isinstance(node, ast.ClassDef)}
    for kind in classes.values():
        own = methods_of(kind).keys()
        members = _Members(context.tree, _methods(kind, classes))
        for waiter in members.methods.values():
            for wait in _waits(waiter, members):
                late = _late_record(wait, waiter, members)
                if late is None or not own & {waiter.name, late.caller, late.method}:
                    continue
                if not any(line in lines for line in range(wait.loop.lineno, (wait.loop.end_lineno or 0) + 1)):
                    yield _finding(wait, waiter, late, context.sites)


class _Late(NamedTuple):
    """A record that follows the wait for it: `caller` calls the method that waits, and then `method`."""

    caller: str
    method: str
    node: ast.Call


def _finding(wait: _Wait, waiter: Method, late: _Late, sites: SourceSites) -> Finding:
    flaw = _FLAW.format(stream=wait.stream, caller=late.caller, recorder=late.method, waiter=waiter.name)
    location = sites.location(sites.id_of(wait.call, waiter.name))
    recorded = sites.related(late.node, late.method, _RECORDED)
    found = Finding.of(unordered_side_stream.RULE, location, flaw=flaw)
    return replace(found, related=(recorded,), help=_HELP.format(recorder=late.method))


def _methods(kind: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> dict[str, Method]:
    """Return the methods of a class, including those that it inherits from classes of the file."""
    found: dict[str, Method] = {}
    waiting, seen = [kind], set[str]()
    for each in waiting:  # the list grows during iteration
        if each.name not in seen:
            seen.add(each.name)
            found = methods_of(each) | found
            waiting += [classes[name] for base in each.bases if (name := last_name(base)) in classes]
    return found


class _Members:
    """The methods of a class.

    Attributes:
        methods: the methods, by name, including inherited ones.

    Args:
        tree: the file.
        methods: the methods.
    """

    def __init__(self, tree: ast.Module, methods: dict[str, Method]) -> None:
        self.methods = methods
        self._tree = tree

    @cached_property
    def rebound(self) -> set[str]:
        """The attributes that methods other than the constructor assign."""
        stored = (node for name, nodes in self._nodes.items() if name != "__init__" for node in nodes)
        return {node.attr for node in stored if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load)}

    @cached_property
    def _nodes(self) -> dict[str, list[ast.AST]]:
        return {name: list(own_nodes(method)) for name, method in self.methods.items()}

    @cached_property
    def _inside(self) -> set[ast.AST]:
        return {node for method in self.methods.values() for node in walk(method)}

    @cached_property
    def _aliases(self) -> dict[str, str]:
        """The attributes for compiled methods, as in `self.run = torch.compile(self._run)`."""
        found: dict[str, str] = {}
        for node in self._nodes.get("__init__", []):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and "compile" in text(node.value.func):
                wrapped = [own_attribute(inner) for inner in walk(node.value) if own_attribute(inner) in self.methods]
                if len(wrapped) == 1:
                    found |= {own_attribute(target): wrapped[0] for target in node.targets if own_attribute(target)}
        return found

    def is_only_ours(self, attribute: str) -> bool:
        """Return whether only methods of the class use an attribute, and only of `self`."""
        named = (node for node in nodes_in(self._tree) if isinstance(node, ast.Attribute) and node.attr == attribute)
        return all(own_attribute(node) and (node in self._inside) for node in named)

    def users(self, events: str) -> dict[str, ast.Call | None]:
        """Return the methods that may record events, each with a call that does; None if none is known."""
        found: dict[str, ast.Call | None] = {}
        for name, method in self.methods.items():
            nodes = [] if name == "__init__" else walk(method)
            known = {
                node: event for node in nodes if (event := _recorded(node)) and own_attribute(event.value) == events
            }
            passive = {awaited for node in nodes if (awaited := _awaited(node)) is not None}
            passive |= {event.value for event in known.values()}
            if known:
                found[name] = next(node for node in known if isinstance(node, ast.Call))
            if any(own_attribute(node) == events and node not in passive for node in nodes):
                found[name] = None
        return found

    def is_plain(self, name: str) -> bool:
        """Return whether a call of a method runs all of it at once, on the calling thread."""
        method = self.methods[name]
        is_wrapped = any(not text(decorator).startswith("torch.") for decorator in method.decorator_list)
        is_cut = any(isinstance(node, ast.Yield | ast.YieldFrom) for node in self._nodes[name])
        return isinstance(method, ast.FunctionDef) and not is_wrapped and not is_cut

    def caller(self, first: str, second: str) -> str:
        """Return a method that calls one method and then another one; "" if others may call them differently."""
        names = {first, second} | {alias for alias, name in self._aliases.items() if name in {first, second}}
        if not all(map(self.is_only_ours, names)) or not (self.is_plain(first) and self.is_plain(second)):
            return ""
        orders = {name: self._order(name, first, second) for name in self.methods if name != "__init__"}
        callers = [name for name, order in orders.items() if order is not None]
        return callers[0] if callers and all(orders[name] for name in callers) else ""

    def _order(self, caller: str, first: str, second: str) -> bool | None:
        """Return whether a method calls one method, and then the other; None if it uses neither."""
        nodes = self._nodes[caller]
        named = [
            (self._aliases.get(own_attribute(node), own_attribute(node)), node) for node in walk(self.methods[caller])
        ]
        uses = [(name, node) for name, node in named if name in {first, second}]
        called = {node.func for node in nodes if isinstance(node, ast.Call)}
        if not uses:
            return None
        if len(uses) != len({first, second} & {name for name, _ in uses}) or len(uses) == 1:
            return False
        if any(node not in called for _, node in uses):
            return False
        lines = {name: node.lineno for name, node in uses if isinstance(node, ast.Attribute)}
        return lines[first] < lines[second] and not any(_parts(node, lines[first], lines[second]) for node in nodes)


def _parts(node: ast.AST, first: int, second: int) -> bool:
    """Return whether the line `second` may run without `first`, because of a branch or loop around the latter."""
    if not isinstance(node, ast.For | ast.AsyncFor | ast.While | ast.If | ast.Try | ast.Match):
        return False
    if not has_line(node, first):
        return False
    if isinstance(node, ast.If) and not has_line(node, second):
        return any(isinstance(inner, ast.Return | ast.Raise | ast.Continue | ast.Break) for inner in walk(node))
    if isinstance(node, ast.Match):
        return True
    last = node.body[-1]
    return not node.body[0].lineno <= first < second <= (last.end_lineno or last.lineno)


# -- the wait


def _waits(method: Method, members: _Members) -> Iterator[_Wait]:
    """Yield the waits in the loops of a method that also copies, in these loops, into memory that iterations share.

    Args:
        method: the method.
        members: the methods of its class.
    """
    for loop in own_nodes(method):
        if not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Name):
            continue
        variable = loop.target.id
        nodes = [node for statement in loop.body for node in (statement, *own_nodes(statement))]
        records = [event for node in nodes if (event := _recorded(node)) and variable in names(event.slice)]
        derived = _derived(variable, nodes)
        targets = [target for target in _copied_to(nodes) if not _may_move(target, members.rebound)]
        for wait in (wait for node in nodes if (wait := _wait_at(node, loop)) and variable in names(wait.key)):
            is_earlier = all(text(event.slice) != text(wait.key) for event in records)
            is_ring = is_earlier and isinstance(wait.key, ast.BinOp)
            if records and any(_is_shared(target, variable, derived, is_ring=is_ring) for target in targets):
                yield wait._replace(sent=frozenset(own_attribute(event.value) for event in records))


def _wait_at(node: ast.AST, loop: ast.For) -> _Wait | None:
    """Return the wait of a side stream of the object for one of its events that a call performs."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or len(node.args) != 1:
        return None
    owner, given = node.func.value, node.args[0]
    event, stream = (given, owner) if node.func.attr == "wait_event" else (owner, given)
    if node.func.attr not in {"wait", "wait_event"} or not isinstance(event, ast.Subscript):
        return None
    is_own = bool(own_attribute(event.value) and own_attribute(stream))
    return _Wait(node, loop, own_attribute(event.value), event.slice, text(stream)) if is_own else None


def _recorded(node: ast.AST) -> ast.Subscript | None:
    """Return the event of the object that a call records, out of a container."""
    event = recorded_event(node)
    return event if isinstance(event, ast.Subscript) and own_attribute(event.value) else None


def _derived(variable: str, nodes: list[ast.AST]) -> dict[str, list[ast.expr]]:
    """Return the variables that a loop binds, with the values that it assigns to them."""
    found: dict[str, list[ast.expr]] = {variable: []}
    for node in nodes:
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.setdefault(node.id, [])
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, []).append(node.value)
    return found


def _copied_to(nodes: list[ast.AST]) -> Iterator[ast.expr]:
    """Yield the targets of the copies among some nodes."""
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "copy_":
            yield node.func.value


def _may_move(target: ast.expr, rebound: set[str]) -> bool:
    """Return whether the target of a copy may change for reasons other than the variables of the loop."""
    nodes = walk(target)
    indices = [inner for node in nodes if isinstance(node, ast.Subscript) for inner in walk(node.slice)]
    return (
        any(isinstance(node, ast.Call) for node in nodes)
        or any(isinstance(node, ast.Attribute) and node.attr in rebound for node in nodes)
        or any(isinstance(node, ast.Attribute) and node.attr not in _SIZES for node in indices)
    )


def _is_shared(target: ast.expr, variable: str, derived: dict[str, list[ast.expr]], *, is_ring: bool) -> bool:
    """Return whether several iterations copy into the same memory.

    Args:
        target: the target of a copy.
        variable: the variable of the loop.
        derived: the variables that the loop binds, with the values.
        is_ring: whether a wait for the event of an earlier iteration shows that the memory is used again.
    """
    used = names(target) & derived.keys()
    root = target
    while isinstance(root, ast.Subscript | ast.Attribute):
        root = root.value
    if not used or not is_ring:
        return not used
    if variable in used or (isinstance(root, ast.Name) and root.id in derived):
        return False  # it may be a buffer of its own for each iteration
    values = [value for name in used for value in derived[name]]
    return any(isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) for value in values for node in walk(value))


# -- the record


def _late_record(wait: _Wait, waiter: Method, members: _Members) -> _Late | None:
    """Return the only record of an event, if a method performs it after calling the method that waits for it."""
    users = members.users(wait.events)
    if len(users) != 1 or waiter.name in users or not members.is_only_ours(wait.events):
        return None
    recorder, node = next(iter(users.items()))
    read = {own_attribute(inner) for inner in own_nodes(members.methods[recorder])}
    if node is None or not wait.sent & read:
        return None  # nothing shows that the method uses the copies
    caller = members.caller(waiter.name, recorder)
    return _Late(caller, recorder, node) if caller else None


def _awaited(node: ast.AST) -> ast.expr | None:
    """Return the container of the event that a call waits for."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    event = node.args[0] if node.func.attr == "wait_event" and node.args else None
    if node.func.attr in {"wait", "synchronize", "query"}:
        event = node.func.value
    return event.value if isinstance(event, ast.Subscript) else None
