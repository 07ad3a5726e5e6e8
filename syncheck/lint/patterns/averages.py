"""Objects that read a model's parameters on a stream of their own, which the next step of the optimizer overwrites.

`ema.update()` makes its stream wait for the step before. Nothing makes the next step wait for that stream (SYN105).
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from syncheck.findings import Finding
from syncheck.lint.interp.functions import block_nodes, functions_with_nodes, own_nodes
from syncheck.lint.kept_streams import streams_kept_by
from syncheck.lint.locations import lines_of
from syncheck.lint.model_parameters import kept_parameters, parameters_in
from syncheck.lint.nodes import (
    Method,
    classes_in,
    classes_of_methods,
    methods_of,
    names,
    nodes_in,
    own_attribute,
    owner_of_call,
    text,
    walk,
)
from syncheck.lint.patterns.context import Context
from syncheck.lint.patterns.object_types import types_of
from syncheck.rules import unordered_side_stream
from syncheck.source.expressions import last_name

_FLAW = "`{call}` reads the parameters on a stream of its own, and nothing waits for it before the next `{step}`"
_JOIN = "call `{owner}.{join}()` before `{step}`"
_NO_JOIN = "let the current stream wait for the stream of `{owner}` before `{step}`"
_WAITS = frozenset({"wait_stream", "wait_event", "synchronize", "wait"})


class _Reader(NamedTuple):
    """A class whose method reads parameters on a stream of its own.

    Attributes:
        update: the name of the method.
        joins: the names of the methods that wait for the stream.
    """

    update: str
    joins: frozenset[str]


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return ".step()" in source and "Stream(" in source and "parameters(" in source


def findings(context: Context) -> Iterator[Finding]:
    """Yield the steps, as warnings, since a caller may wait."""
    readers = {kind.name: reader for kind in classes_in(context.tree) if (reader := _reader(kind)) is not None}
    lines, kinds = lines_of(context.known), classes_of_methods(context.tree)
    for function, nodes in functions_with_nodes(context.tree) if readers else ():
        for step, update, reader in _unjoined(function, nodes, kinds.get(function), readers):
            if step.lineno not in lines and not _is_joined_elsewhere(context.tree, reader, readers):
                owner = owner_of_call(update)
                join = min(reader.joins, default="")
                words = {"call": text(update), "step": text(step), "owner": owner, "join": join}
                advice = (_JOIN if join else _NO_JOIN).format(**words)
                flaw = _FLAW.format(**words)
                yield context.sites.warning(unordered_side_stream.RULE, step, function.name, advice, flaw=flaw)


def _reader(kind: ast.ClassDef) -> _Reader | None:
    """Return the method of a class that reads parameters on a stream without a join; None if there is none."""
    kept = kept_parameters(kind)
    for stream in (f"self.{name}" for name in streams_kept_by(kind)) if kept else ():
        for method in methods_of(kind).values():
            blocks = [node for node in own_nodes(method) if isinstance(node, ast.With) and _is_on(stream, node)]
            reads = method.name != "__init__" and any(_reads(block, method, kept) for block in blocks)
            if reads and not _waits_for(method, stream):
                joins = (other.name for other in methods_of(kind).values() if _waits_for(other, stream))
                return _Reader(method.name, frozenset(joins) - {"__init__"})
    return None


def _is_on(stream: str, block: ast.With) -> bool:
    """Return whether a block makes a stream current, perhaps only if there is one."""
    return any(f"stream({stream})" in text(item.context_expr) for item in block.items)


def _reads(block: ast.With, method: Method, kept: frozenset[str]) -> bool:
    """Return whether a block passes parameters of a model to calls."""
    variables = parameters_in(method, kept)
    calls = [node for node in block_nodes(block) if isinstance(node, ast.Call)]
    given = [value for call in calls for value in call.args if last_name(call.func) not in {"record_stream", "zip"}]
    return any(names(value) & variables or own_attribute(value) in kept for value in given)


def _waits_for(method: Method, stream: str) -> bool:
    """Return whether a method makes another stream, or the host, wait for a stream or for an event of the object."""
    for node in own_nodes(method):
        match node:
            case ast.Call(func=ast.Attribute(value=waiter, attr=name)) if name in _WAITS:
                given = [waiter, *node.args] if name in {"synchronize", "wait"} else node.args
                if text(waiter) != stream and any(own_attribute(part) for part in given):
                    return True
                if name == "synchronize" and text(waiter) == stream:
                    return True
            case _:
                pass
    return False


def _unjoined(
    function: Method, nodes: Sequence[ast.AST], kind: ast.ClassDef | None, readers: Mapping[str, _Reader]
) -> Iterator[tuple[ast.Call, ast.Call, _Reader]]:
    """Yield the steps of optimizers in a function before it calls such a method, with the call and the class."""
    calls = [node for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    steps = [call for call in calls if last_name(call.func) == "step" and "opt" in text(call.func).lower()]
    for call in calls if steps else ():
        owner = call.func.value if isinstance(call.func, ast.Attribute) else call
        for name in types_of(owner, function, kind):
            reader = readers.get(name)
            if reader is None or last_name(call.func) != reader.update:
                continue
            others = {last_name(other.func) for other in calls}
            before = [step for step in steps if step.lineno < call.lineno]
            if before and not others & (reader.joins | {"synchronize", "wait_stream", "wait_event"}):
                yield before[-1], call, reader


def _is_joined_elsewhere(tree: ast.Module, reader: _Reader, readers: Mapping[str, _Reader]) -> bool:
    """Return whether the file calls a method that waits, outside the class itself, other than around an evaluation."""
    inside = {node for kind in classes_in(tree) if kind.name in readers for node in walk(kind)}
    called = (node for node in nodes_in(tree) if isinstance(node, ast.Call) and node not in inside)
    return any(last_name(node.func) in reader.joins and len(node.args) == 0 for node in called)
