"""The program's names for the streams, events and tensors of a finding, in the functions that led to it."""

import ast
import re
from collections.abc import Callable, Iterator
from functools import partial

from syncheck.findings import EditKind
from syncheck.hb.ids import NamedKind
from syncheck.lint.interp.arithmetic import computed
from syncheck.lint.interp.machine import Machine
from syncheck.lint.interp.scope import Scope
from syncheck.lint.interp.values import (
    UNKNOWN,
    Constant,
    Event,
    Instance,
    Key,
    Mapping,
    Sequence,
    Stream,
    Tensor,
    Value,
)
from syncheck.sanitizer.collector import PendingFinding
from syncheck.sanitizer.messages import EventCode, Part, StreamCode, TensorCode
from syncheck.sanitizer.monitor import SourceLine
from syncheck.source.indices import with_own_index


def name_findings(machine: Machine, findings: list[PendingFinding], scope: Scope, statement: ast.stmt) -> None:
    """Pass the names that objects have in a scope to the session.

    Args:
        machine: the machine with the session.
        findings: the findings made while the statement ran.
        scope: the scope of the function that contains the statement.
        statement: a statement of the program.
    """
    text = ast.unparse(statement)
    for finding in findings:
        allocation = finding.allocation
        _name_at_use(machine, finding)
        if allocation and allocation not in machine.named:
            name = _name_of(scope, text, partial(_is_tensor, allocation))
            if name:
                machine.named.add(allocation)
                machine.session.name(NamedKind.ALLOCATION, allocation, name)
        for line, part in _lines_and_parts(machine, finding, statement):
            wanted = _wanted(part)
            name = _name_of(scope, text, wanted[2]) if wanted is not None else ""
            if wanted is not None and name:
                name = _with_own_index(name, scope, line)
                machine.session.name_at(wanted[0], wanted[1], name, line.path, line.number)


def _name_at_use(machine: Machine, finding: PendingFinding) -> None:
    """Pass on how a finding's tensor is written where it is used."""
    for line in machine.sites.lines_of(finding.site):
        node = machine.sites.mentions.get((finding.allocation, line.number))
        if node is not None and line.path == machine.sites.path and _is_place(node):
            machine.session.name_at(NamedKind.ALLOCATION, finding.allocation, ast.unparse(node), line.path, line.number)


def _is_place(node: ast.expr) -> bool:
    """Return whether an expression has no effects: a variable, or an item or attribute of one."""
    match node:
        case ast.Name():
            return True
        case ast.Attribute(value=owner) | ast.Subscript(value=owner, slice=ast.Name() | ast.Constant()):
            return _is_place(owner)
        case _:
            return False


def _lines_and_parts(
    machine: Machine, finding: PendingFinding, statement: ast.stmt
) -> Iterator[tuple[SourceLine, Part]]:
    """Yield the parts of the code that a fix inserts before a statement, each with the line in the statement."""
    for edit in finding.fix.all_edits() if finding.fix is not None else ():
        if edit.kind is not EditKind.INSERT_BEFORE:
            continue
        for line in machine.sites.lines_of(edit.site):
            if statement.lineno <= line.number <= (statement.end_lineno or statement.lineno):
                yield from ((line, part) for part in edit.code)


def _wanted(part: Part) -> tuple[NamedKind, int, Callable[[Value], bool]] | None:
    """Return the kind and id of the object that code mentions, and a predicate for it; None if it mentions none."""
    match part:
        case StreamCode(stream):
            return NamedKind.STREAM, stream, partial(_is_stream, stream)
        case EventCode(event):
            return NamedKind.EVENT, event, partial(_is_event, event)
        case TensorCode(allocation):
            return NamedKind.ALLOCATION, allocation, partial(_is_tensor, allocation)
        case _:
            return None


def _is_stream(ident: int, value: Value) -> bool:
    return isinstance(value, Stream) and value.ident == ident and not value.origin


def _is_event(ident: int, value: Value) -> bool:
    return isinstance(value, Event) and value.ident == ident


def _is_tensor(ident: int, value: Value) -> bool:
    return isinstance(value, Tensor) and value.block.ident == ident


def _name_of(scope: Scope, text: str, is_wanted: Callable[[Value], bool]) -> str:
    """Return the name of a value in a scope, preferably one whose words are in a text; "" if there is none."""
    words = set(re.findall(r"\w+", text))
    found: list[str] = []
    around: Scope | None = scope
    while around is not None:
        found += [text for name, value in around.names.items() for text, item in held(name, value) if is_wanted(item)]
        around = around.parent
    display_name = [name for name in found if set(re.findall(r"[A-Za-z_]\w*", name)) <= words]
    plain = [name for name in found if "[" not in name]
    return (display_name or plain or found or [""])[0]


def _with_own_index(name: str, scope: Scope, line: SourceLine) -> str:
    """Replace the constant index of an item, which is often that of one iteration only; see `with_own_index`."""
    if line.scopes is None or not name.endswith("]"):
        return name
    subscripts = line.scopes.subscripts_around(line.number)
    return with_own_index(name, subscripts, line.number, partial(_index, scope), partial(_n_items, scope))


def _index(scope: Scope, node: ast.Subscript) -> object:
    """Return the index or key that a subscript expression selects; None if unknown."""
    index = _value(scope, node.slice)
    return index.value if isinstance(index, Constant) else None


def _n_items(scope: Scope, base: ast.expr) -> int:
    container = _value(scope, base)
    return len(container.items) if isinstance(container, Sequence | Mapping) and not container.is_open else 0


def _value(scope: Scope, node: ast.expr) -> Value:
    """Return the value of an expression without effects; UNKNOWN for any other."""
    match node:
        case ast.Constant(value=value):
            return Constant(value)
        case ast.Name(id=name):
            return scope.find(name) or UNKNOWN
        case ast.Attribute(value=owner, attr=name):
            holder = _value(scope, owner)
            return holder.attributes.get(name, UNKNOWN) if isinstance(holder, Instance) else UNKNOWN
        case ast.BinOp(left=left, op=kind, right=right):
            one, two = _value(scope, left), _value(scope, right)
            if isinstance(one, Constant) and isinstance(two, Constant):
                return computed(kind, one.value, two.value)
            return UNKNOWN
        case _:
            return UNKNOWN


def held(name: str, value: Value) -> Iterator[tuple[str, Value]]:
    """Yield a value with its name, and the values that it contains."""
    yield name, value
    if isinstance(value, Sequence | Mapping):
        for text, item in _items(name, value):
            yield text, item
            if isinstance(item, Sequence | Mapping):
                yield from _items(text, item)
    elif isinstance(value, Instance):
        for key, item in value.attributes.items():
            yield f"{name}.{key}", item
            if name == "self" and isinstance(item, Instance):
                yield from ((f"{name}.{key}.{inner}", part) for inner, part in item.attributes.items())
            if name == "self" and isinstance(item, Sequence):
                yield from ((f"{name}.{key}[{index}]", inner) for index, inner in enumerate(item.items))


def _items(name: str, value: Sequence | Mapping) -> Iterator[tuple[str, Value]]:
    if isinstance(value, Sequence):
        yield from ((f"{name}[{index}]", item) for index, item in enumerate(value.items))
    else:
        for key, item in value.items.items():
            shown = (key.text or "...") if isinstance(key, Key) else repr(key)
            yield f"{name}[{shown}]", item
