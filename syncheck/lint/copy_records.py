"""Classes whose objects hold copies in flight together with the event after them: `Job(host, copied)`."""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping

from syncheck.lint.interp.functions import own_nodes
from syncheck.lint.nodes import (
    FindClass,
    Method,
    awaited_event,
    classes_in,
    methods_of,
    nodes_in,
    own_attribute,
    text,
)
from syncheck.source.expressions import last_name

_LIKELY = re.compile(r"\.(?!.*\.)_*[A-Z]\w*$")
"""Full names of classes, judging by their spelling."""
MAKES_EVENT = re.compile(r"cuda\.Event|record_event\(")
"""Text that makes an event of a GPU, or is its type."""
_OF_HOST = frozenset({"threading.Event", "asyncio.Event", "multiprocessing.Event", "mp.Event"})
_WORDS = ("cuda.Event", "record_event(", "pin_memory")
"""Words of classes that hold an event of a GPU, or fill pinned memory."""
_BLOCKING = frozenset({"synchronize", "query", "item", "cpu", "tolist"})
"""Calls in which the host may wait."""


def imported_records(imports: Mapping[str, str], find: FindClass) -> list[ast.ClassDef]:
    """Return the imported classes that hold an event of a GPU, or fill pinned memory.

    Args:
        imports: the names that a file imports -> their full names.
        find: finds a class.
    """
    found = (find(full, _WORDS) for full in imports.values() if _LIKELY.search(full))
    return [kind for kind in found if kind is not None]


class CopyRecords:
    """What the classes of a file, and those that it imports, hold.

    Attributes:
        events: the names of variables and attributes that are events of a GPU.
        fences: the methods that only make a stream wait for an event of their object -> the name of the event.
        pinned: the attributes in pinned memory of classes with such an event.
        are_pinned: whether any memory is pinned.

    Args:
        tree: the file.
        imported: classes that it imports.
    """

    def __init__(self, tree: ast.Module, imported: Iterable[ast.ClassDef] = ()) -> None:
        others = list(imported)
        nodes = [*nodes_in(tree), *(node for kind in others for node in ast.walk(kind))]
        self.events = _events(nodes)
        kinds = [*classes_in(tree), *others]
        self.fences = self._fences(kinds)
        holding = [kind for kind in kinds if self._holds_event(kind)]
        self.pinned = frozenset(name for kind in holding for name in _pinned_attributes(kind))
        self.are_pinned = any(isinstance(node, ast.keyword | ast.Attribute) and _pins(node) for node in nodes)

    def _fences(self, kinds: Iterable[ast.ClassDef]) -> dict[str, str]:
        methods = [(name, method) for kind in kinds for name, method in methods_of(kind).items()]
        names = [name for name, _ in methods]
        found = ((name, self._fence(method)) for name, method in methods if names.count(name) == 1)
        return {name: event for name, event in found if event}

    def _fence(self, method: Method) -> str:
        """Return the event of its own object for which a method makes a stream wait; "" if it does more."""
        calls = [node for node in own_nodes(method) if isinstance(node, ast.Call)]
        if any(last_name(call.func) in _BLOCKING for call in calls):
            return ""
        waits = (own_attribute(event) for call in calls if (event := awaited_event(call)) is not None)
        return next((event for event in waits if event in self.events), "")

    def _holds_event(self, kind: ast.ClassDef) -> bool:
        return any(name in self.events for name in _attributes(kind))


def _attributes(kind: ast.ClassDef) -> Iterator[str]:
    """Yield the attributes that a class uses or declares."""
    for node in ast.walk(kind):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif own := own_attribute(node):
            yield own


def _events(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """Return the names of the variables and attributes that are events of a GPU."""
    found: set[str] = set()
    others: set[str] = set()  # of the standard library
    for node in nodes:
        match node:
            case ast.Assign(targets=targets, value=ast.Call(func=made)) if text(made) in _OF_HOST:
                others |= {last_name(target) for target in targets}
            case ast.AnnAssign(target=target, annotation=kind) if text(kind) in _OF_HOST:
                others.add(last_name(target))
            case ast.AnnAssign(target=target, annotation=kind) if "cuda.Event" in text(kind):
                found.add(last_name(target))
            case ast.arg(arg=name, annotation=ast.expr() as kind) if "cuda.Event" in text(kind):
                found.add(name)
            case ast.Assign(targets=targets, value=ast.Call() | ast.IfExp() as made) if MAKES_EVENT.search(text(made)):
                found |= {last_name(target) for target in targets}
            case _:
                pass
    return frozenset(found - others - {""})


def _pinned_attributes(kind: ast.ClassDef) -> Iterator[str]:
    """Yield the attributes of a class that are made in pinned memory, not in a container."""
    for node in ast.walk(kind):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            call = node.value
            if any(map(_pins, [*call.keywords, call.func])):
                yield from filter(None, map(own_attribute, node.targets))


def _pins(node: ast.AST) -> bool:
    match node:
        case ast.keyword(arg="pin_memory", value=value):
            return not (isinstance(value, ast.Constant) and not value.value)
        case ast.Attribute(attr="pin_memory"):
            return True
        case _:
            return False
