"""Methods that use what another method changes on a stream of the object, without the wait of a third method (SYN105).

`update()` changes `self.averages` on `self.stream`; `state_dict()` waits for this stream before it reads them, so the
class does not rely on its callers for that. `apply()` reads them without a wait.
"""

import ast
from collections.abc import Iterator, Sequence, Set
from typing import NamedTuple

from syncheck.findings import Finding
from syncheck.lint.interp.functions import block_nodes, own_nodes
from syncheck.lint.interp.unknown import may_wait
from syncheck.lint.kept_streams import streams_kept_by
from syncheck.lint.locations import lines_of
from syncheck.lint.nodes import (
    HOST_READS,
    NO_VALUES,
    NO_WRITES,
    VIEWS,
    WAITS,
    Method,
    changed_in_place,
    classes_in,
    entered_streams,
    first_of,
    methods_of,
    own_attribute,
    viewed,
    walk,
)
from syncheck.lint.patterns.context import Context
from syncheck.rules import unordered_side_stream
from syncheck.semantics.python_api import FACTORIES
from syncheck.source.expressions import STREAM_CONTEXTS, last_name

_FLAW = "`{reader}` uses `self.{field}`, which `{writer}` changes on stream `self.{stream}`; only `{waiting}` waits"
_HELP = "call `torch.cuda.current_stream().wait_stream(self.{stream})` before line {line}"
_TRANSPARENT = frozenset({"no_grad", "inference_mode", "contextmanager", "property", "staticmethod", "classmethod"})
"""Decorators that do not wait."""
_GOING_THROUGH = frozenset({"zip", "enumerate", "values", "items", "reversed", "list", "tuple"})
"""Functions and methods whose results are iterated over instead of containers."""
_OTHERS = """len range record_stream append isinstance id print keys get sorted set zeros_like empty_like ones_like
    stride is_contiguous untyped_storage clear pop extend""".split()
_NO_WORK = NO_VALUES | _GOING_THROUGH | NO_WRITES | frozenset(_OTHERS)
"""Calls that submit no work on their arguments."""
_NO_CHANGES = NO_WRITES | {"copy_", "_foreach_copy_"}
"""Methods that do not count as changes, although their names end with "_"."""


class _Change(NamedTuple):
    """An attribute that a method changes on a stream of the object.

    Attributes:
        field: the attribute.
        stream: the attribute that holds the stream.
        method: the name of the method.
    """

    field: str
    stream: str
    method: str


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return "Stream(" in source and "stream(self." in source


def findings(context: Context) -> Iterator[Finding]:
    """Yield the uses, as warnings, since a caller may wait."""
    lines = lines_of(context.known)
    for kind in classes_in(context.tree):
        methods = methods_of(kind)
        for change in _changes(methods, streams_kept_by(kind), _host_fields(kind)):
            waiting = next((m.name for m in methods.values() if _waits_and_reads(m, change)), "")
            for method in methods.values() if waiting else ():
                use = _use_without_wait(method, change, methods)
                if use is not None and use.lineno not in lines:
                    flaw = _FLAW.format(
                        reader=method.name,
                        field=change.field,
                        writer=change.method,
                        stream=change.stream,
                        waiting=waiting,
                    )
                    advice = _HELP.format(stream=change.stream, line=use.lineno)
                    yield context.sites.warning(unordered_side_stream.RULE, use, method.name, advice, flaw=flaw)


def _around(block: ast.With, method: Method, methods: dict[str, Method]) -> Iterator[ast.AST]:
    """Yield the nodes of a method that may wait for a block: its contexts, and what comes later or is called there."""
    yield from (item.context_expr for item in block.items)
    for node in own_nodes(method):
        if getattr(node, "lineno", 0) > (block.end_lineno or block.lineno):
            yield node
            called = methods.get(own_attribute(node.func)) if isinstance(node, ast.Call) else None
            yield from own_nodes(called) if called is not None else ()


def _host_fields(kind: ast.ClassDef) -> set[str]:
    """Return the attributes that a class makes on the host: `self.n_updates = torch.zeros(())`."""
    found: set[str] = set()
    for node in walk(kind):
        match node:
            case ast.Assign(targets=targets, value=ast.Call(func=made, keywords=words)) if last_name(made) in FACTORIES:
                if not any(word.arg == "device" for word in words):
                    found |= set(map(own_attribute, targets))
            case _:
                pass
    return found


def _changes(methods: dict[str, Method], streams: Set[str], on_host: Set[str]) -> Iterator[_Change]:
    """Yield what methods change on the streams of their object, unless they wait for it later."""
    for method in methods.values():
        for block in (node for node in own_nodes(method) if isinstance(node, ast.With)):
            for stream in map(own_attribute, entered_streams(block)):
                if stream in streams and not any(_joins(node, stream) for node in _around(block, method, methods)):
                    fields = _changed(list(block_nodes(block))) - on_host
                    yield from (_Change(field, stream, method.name) for field in sorted(fields))


def _changed(nodes: Sequence[ast.AST]) -> set[str]:
    """Return the attributes of the object that some nodes change in place, themselves or element by element.

    A copy to one is left out: a class may well read that only after the method that waits for it.
    """
    elements = _elements(nodes)
    found: set[str] = set()
    for node in nodes:
        target = changed_in_place(node)
        if target is None or not isinstance(node, ast.Call) or last_name(node.func) in _NO_CHANGES:
            continue
        if last_name(node.func).startswith("_foreach_") and node.args:
            target = node.args[0]
        found.add(_field_of(target, elements))
    return found - {""}


def _elements(nodes: Sequence[ast.AST]) -> dict[str, str]:
    """Return the variables that go through the attributes of the object -> the attributes."""
    found: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.For | ast.comprehension):
            for target, source in _pairs(node.target, node.iter):
                if isinstance(target, ast.Name) and (field := own_attribute(source)):
                    found[target.id] = field
    return found


def _pairs(target: ast.expr, source: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield the targets of a loop, each with the container that it goes through."""
    match target, source:
        case ast.Tuple(elts=targets), ast.Call(func=ast.Name(id="zip"), args=sources):
            for one, other in zip(targets, sources, strict=False):
                yield from _pairs(one, other)
        case ast.Tuple(elts=[_, one]), ast.Call(func=ast.Name(id="enumerate"), args=[other, *_]):
            yield from _pairs(one, other)
        case ast.Tuple(elts=[_, one]), ast.Call(func=ast.Attribute(value=other, attr="items")):
            yield one, other
        case _, ast.Call(func=ast.Attribute(value=other, attr="values")):
            yield target, other
        case _:
            yield target, source


def _field_of(value: ast.expr, elements: dict[str, str]) -> str:
    """Return the attribute of the object that a tensor belongs to; "" for any other tensor."""
    inner = viewed(value, VIEWS)
    while isinstance(inner, ast.Attribute) and inner.attr == "data":
        inner = viewed(inner.value, VIEWS)
    return own_attribute(inner) or (elements.get(inner.id, "") if isinstance(inner, ast.Name) else "")


def _joins(node: ast.AST, stream: str) -> bool:
    """Return whether a call waits for a stream of the object, or may do so, judging by its name and arguments."""
    if not isinstance(node, ast.Call):
        return False
    name = last_name(node.func)
    is_own = isinstance(node.func, ast.Attribute) and own_attribute(node.func.value) == stream
    is_given = any(own_attribute(value) == stream for value in node.args) and name not in STREAM_CONTEXTS
    return is_given or ((may_wait(name) or name in WAITS | HOST_READS) and (not is_own or name == "synchronize"))


def _waits_and_reads(method: Method, change: _Change) -> bool:
    """Return whether a method waits for the changes, by the name of the stream, and then uses what was changed."""
    nodes = own_nodes(method)
    waits = [node.lineno for node in nodes if isinstance(node, ast.Call) and _waits_for(node, change.stream)]
    uses = (getattr(node, "lineno", 0) for node in nodes if own_attribute(node) == change.field)
    return bool(waits) and any(line > min(waits) for line in uses) and method.name != change.method


def _waits_for(call: ast.Call, stream: str) -> bool:
    match call:
        case ast.Call(func=ast.Attribute(attr="wait_stream"), args=[awaited]):
            return own_attribute(awaited) == stream
        case ast.Call(func=ast.Attribute(value=awaited, attr="synchronize")):
            return own_attribute(awaited) == stream
        case _:
            return False


def _use_without_wait(method: Method, change: _Change, methods: dict[str, Method]) -> ast.Call | None:
    """Return the first call of a method that works on what was changed, if neither it nor a caller may wait before."""
    callers = [other for other in methods.values() if _calls(other, method.name)]
    steps = (method, *callers)
    if method.name in {change.method, "__init__"} or any(_may_wait(step, change.stream, methods) for step in steps):
        return None
    nodes = own_nodes(method)
    elements = _elements(nodes)
    calls = (node for node in nodes if isinstance(node, ast.Call) and _works_on(node, change.field, elements))
    return first_of(calls)


def _works_on(call: ast.Call, field: str, elements: dict[str, str]) -> bool:
    if last_name(call.func) in _NO_WORK:
        return False
    receiver = [call.func.value] if isinstance(call.func, ast.Attribute) else []
    return any(_field_of(value, elements) == field for value in [*receiver, *call.args])


def _may_wait(method: Method, stream: str, methods: dict[str, Method]) -> bool:
    """Return whether a method may wait for a stream, enters one, or calls another method of the object that waits."""
    if any(last_name(decorator) not in _TRANSPARENT for decorator in method.decorator_list):
        return True
    nodes = own_nodes(method)
    if any(isinstance(node, ast.With) and entered_streams(node) for node in nodes):
        return True
    called = {methods.get(own_attribute(node.func)) for node in nodes if isinstance(node, ast.Call)} - {None, method}
    inner = (node for other in called if other is not None for node in walk(other))
    return any(_joins(node, stream) for node in (*nodes, *inner))


def _calls(method: Method, name: str) -> bool:
    return any(isinstance(node, ast.Call) and own_attribute(node.func) == name for node in own_nodes(method))
