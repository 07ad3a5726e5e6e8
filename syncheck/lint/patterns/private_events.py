"""Private events of objects that a file waits for and never records, so that the waits do nothing (SYN401).

So are the events of a dataclass of which the file records only the others.
"""

import ast
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import TypeGuard

from syncheck.findings import Finding, Location
from syncheck.lint.file_calls import argument_of, unpacks
from syncheck.lint.interp.sites import SourceSites
from syncheck.lint.nodes import (
    Method,
    children,
    function_around,
    is_abstract,
    is_quoted,
    methods_of,
    own_attribute,
    recorded_event,
    text,
    walk,
    without_none,
)
from syncheck.lint.patterns.context import Context
from syncheck.rules import unordered_side_stream, wait_before_record
from syncheck.rules.model import Severity
from syncheck.source.expressions import has_line, last_name

_PRIVATE = re.compile(r"self\._\w+(?:: [^=\n]+)? = torch\.(?:\w+\.)?Event\(")
_FIELD = re.compile(r"^ +\w+: [^=\n]*\btorch\.(?:\w+\.)?Event\b", re.MULTILINE)
_APPENDED = re.compile(r"self\._\w+\.append\(torch\.(?:\w+\.)?Event\(")
_ASKING = frozenset({"query", "synchronize", "wait"})
_UNUSED = "nothing in this file waits for `self.{name}`, which is recorded here, nor for its stream"
_HELP_UNUSED = "let the stream that uses the recorded work wait for `self.{name}`"
_HELP = "record `{event}` where the work that it stands for was launched: `{event}.record()`"


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    if "Event" not in source:
        return False
    return any(pattern.search(source) is not None for pattern in (_PRIVATE, _APPENDED, _FIELD))


def findings(context: Context) -> Iterator[Finding]:
    """Yield the first wait for each event that only its object knows, if the file never records it.

    They are warnings, since a subclass in another file may record the event.
    """
    lines = {finding.location.frame.line for finding in context.known if finding.rule == wait_before_record.RULE}
    nodes = walk(context.tree)
    parents = {child: node for node in nodes for child in children(node)}
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    abstract = [kind for kind in classes if any(map(_is_for_subclasses, methods_of(kind).values()))]
    made: dict[str, ast.expr | ast.AnnAssign] = {
        own_attribute(target): value for node in nodes for target, value in _bound(node) if _is_event(value)
    }
    fields = dict(_fields(classes, nodes, context.sites.text))
    for name, event in (made | fields).items():
        if any(has_line(kind, event.lineno) for kind in abstract):
            continue  # subclasses in other files may record it
        uses = [node for node in nodes if isinstance(node, ast.Attribute) and node.attr == name]
        read = [node for node in uses if isinstance(node.ctx, ast.Load)]
        calls = [call for node in read if (call := _waiting(node, parents)) is not None]
        waits = [call for call in calls if last_name(call.func) != "query"]
        is_only_waited_for = len(calls) == len(read) and len(uses) == len(read) + (name not in fields)
        if waits and is_only_waited_for and not lines & {call.lineno for call in calls}:
            location = _location(waits[0], context.tree, context.sites)
            waiter = "the host" if last_name(waits[0].func) == "synchronize" else "the stream"
            awaited = text(next(node for node in read if _waiting(node, parents) is waits[0]))
            finding = Finding.of(wait_before_record.RULE, location, waiter=waiter, event=f"`{awaited}`")
            how = f"{'declared' if name in fields else 'created'} here, and recorded nowhere in this file"
            related = (replace(_location(event, context.tree, context.sites), message=how),)
            advice = _HELP.format(event=awaited)
            yield replace(finding, level=Severity.WARNING, related=related, help=advice)
    for name, record in _never_awaited(nodes, parents, context.sites.text):
        if record.lineno not in lines and not any(has_line(kind, record.lineno) for kind in abstract):
            unused: Finding = Finding.of(
                unordered_side_stream.RULE,
                _location(record, context.tree, context.sites),
                flaw=_UNUSED.format(name=name),
            )
            yield replace(unused, level=Severity.WARNING, help=_HELP_UNUSED.format(name=name))


def _fields(
    classes: Sequence[ast.ClassDef], nodes: Sequence[ast.AST], source: str
) -> Iterator[tuple[str, ast.AnnAssign]]:
    """Yield the events among the fields of classes of which a file records others and not this one."""
    recorded = {event.attr for node in nodes if isinstance(event := recorded_event(node), ast.Attribute)}
    for kind in classes:
        fields = {text(field.target): field for field in kind.body if _is_event_field(field)}
        if recorded.isdisjoint(fields) or _is_handed_out(kind.name, fields, nodes):
            continue
        for name, field in fields.items():
            if name not in recorded and not is_quoted(name, source) and _is_made_new(name, kind, nodes):
                yield name, field


def _is_made_new(name: str, kind: ast.ClassDef, nodes: Sequence[ast.AST]) -> bool:
    """Return whether all objects of a class are made in its file, each with a new event in a field."""
    declared = [field for field in kind.body if isinstance(field, ast.AnnAssign)]
    position = next(index for index, field in enumerate(declared) if text(field.target) == name)
    default = declared[position].value
    made = [node for node in nodes if isinstance(node, ast.Call) and last_name(node.func) == kind.name]
    given = [argument_of(call, name, position) for call in made if not unpacks(call)]
    is_new = [_is_event(value) if value is not None else _makes_event(default) for value in given]
    return bool(made) and len(given) == len(made) and all(is_new)


def _makes_event(default: ast.expr | None) -> bool:
    """Return whether the default of a field is a factory of events: `field(default_factory=torch.cuda.Event)`."""
    factories = [word.value for word in default.keywords] if isinstance(default, ast.Call) else []
    return any(text(factory).startswith("torch.") and last_name(factory) == "Event" for factory in factories)


def _is_handed_out(kind: str, fields: Collection[str], nodes: Sequence[ast.AST]) -> bool:
    """Return whether a public function returns an object of a class, whose events other files may record.

    Args:
        kind: the class.
        fields: its events. A variable that has one of them is such an object.
        nodes: the nodes of the file.
    """
    owners = {text(node.value) for node in nodes if isinstance(node, ast.Attribute) and node.attr in fields}
    for function in (node for node in nodes if isinstance(node, Method) and not node.name.startswith("_")):
        if kind in text(function.returns or ast.Constant(None)):
            return True
        given = (node.value for node in walk(function) if isinstance(node, ast.Return | ast.Yield))
        if any(value is not None and text(value) in owners for value in given):
            return True
    return False


def _is_event_field(node: ast.stmt) -> TypeGuard[ast.AnnAssign]:
    """Return whether a statement declares a field that is an event."""
    if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
        return False
    declared = text(without_none(node.annotation) or node.annotation)
    return declared.startswith("torch.") and declared.endswith(".Event")


def _is_for_subclasses(method: Method) -> bool:
    """Return whether subclasses must define a method."""
    return is_abstract(method) or any(last_name(mark) == "abstractmethod" for mark in method.decorator_list)


def _never_awaited(
    nodes: Sequence[ast.AST], parents: dict[ast.AST, ast.AST], source: str
) -> Iterator[tuple[str, ast.Call]]:
    """Yield the private events, or lists of them, that a file only records, each with a record."""
    if any(word in source for word in ("wait_stream(", "synchronize(", "elapsed_time(", "query(")):
        return
    kept = {name for node in nodes if (name := _kept_event(node)).startswith("_")}
    for name in sorted(name for name in kept if not is_quoted(name, source)):
        uses = [node for node in nodes if isinstance(node, ast.Attribute) and node.attr == name]
        read = [node for node in uses if isinstance(node.ctx, ast.Load)]
        records = [call for node in read if (call := _recording(node, parents)) is not None]
        others = [node for node in read if _recording(node, parents) is None and not _is_filled(node, parents)]
        if records and not others:
            yield name, records[0]


def _kept_event(node: ast.AST) -> str:
    """Return the attribute of `self` to which a statement binds or appends an event; "" for any other node."""
    match node:
        case ast.Assign(targets=[target], value=value) if _is_event(value):
            return own_attribute(target)
        case ast.Call(func=ast.Attribute(value=events, attr="append"), args=[value]) if _is_event(value):
            return own_attribute(events)
        case _:
            return ""


def _recording(node: ast.expr, parents: dict[ast.AST, ast.AST]) -> ast.Call | None:
    """Return the call that records an event, or an item of a list of them; None for any other use."""
    inner, outer = node, parents.get(node)
    if isinstance(outer, ast.Subscript) and outer.value is inner:
        inner, outer = outer, parents.get(outer)
    call = parents.get(outer) if isinstance(outer, ast.Attribute) and outer.attr == "record" else outer
    is_record = isinstance(call, ast.Call) and last_name(call.func) in {"record", "record_event"}
    return call if isinstance(call, ast.Call) and is_record else None


def _is_filled(node: ast.expr, parents: dict[ast.AST, ast.AST]) -> bool:
    outer = parents.get(node)
    return isinstance(outer, ast.Attribute) and outer.attr == "append"


def _location(node: ast.expr | ast.AnnAssign, tree: ast.Module, sites: SourceSites) -> Location:
    """Return the location of an expression in the function around it."""
    return sites.location(sites.id_of(node, getattr(function_around(tree, node.lineno), "name", "")))


def _bound(node: ast.AST) -> list[tuple[ast.expr, ast.expr]]:
    """Return the private attributes of the object itself that an assignment binds, with the value."""
    match node:
        case ast.Assign(targets=targets, value=value):
            pass
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            targets = [target]
        case _:
            return []
    return [(target, value) for target in targets if own_attribute(target).startswith("_")]


def _is_event(value: ast.expr) -> bool:
    """Return whether an expression creates an event of this process."""
    if not isinstance(value, ast.Call) or last_name(value.func) != "Event":
        return False
    return "torch" in ast.unparse(value.func) and not any(word.arg == "interprocess" for word in value.keywords)


def _waiting(event: ast.Attribute, parents: dict[ast.AST, ast.AST]) -> ast.Call | None:
    """Return the call that waits for an event, or asks whether it is complete; None for any other use."""
    parent = parents[event]
    if isinstance(parent, ast.Attribute) and parent.attr in _ASKING:
        call = parents[parent]
        return call if isinstance(call, ast.Call) and call.func is parent else None
    return parent if isinstance(parent, ast.Call) and last_name(parent.func) == "wait_event" else None
