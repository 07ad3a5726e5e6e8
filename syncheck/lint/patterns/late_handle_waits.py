"""Kept buffers that are written right before the wait for the collective that still sends them (SYN602).

`buffer.copy_(x)`, then `self.sent[k].wait()`, then `self.sent[k] = dist.isend(buffer, peer)`: the wait is for the send
of the call before, which may still read the buffer while it is written.
"""

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from syncheck.findings import Finding
from syncheck.lint.interp.functions import functions_with_nodes
from syncheck.lint.interp.unknown import may_wait
from syncheck.lint.locations import main_lines_of
from syncheck.lint.nodes import (
    NO_WRITES,
    blocks_in,
    changed_in_place,
    nodes_in,
    once,
    own_attribute,
    own_container,
    text,
    walk,
)
from syncheck.lint.patterns.context import Context
from syncheck.rules import collective_buffer_modified
from syncheck.semantics.collectives import FUNCTIONS
from syncheck.source.expressions import arguments_of, last_name

_HELP = "move the wait for `{handle}` in line {late} before line {line}"


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return ".wait()" in source and ("isend(" in source or "async_op" in source)


def findings(context: Context) -> Iterator[Finding]:
    """Yield the writes."""
    lines = main_lines_of(context.known)
    for function, nodes in functions_with_nodes(context.tree):
        if any(map(_is_asynchronous, nodes)):
            for steps in blocks_in(function, nodes):
                for found in _late_waits(steps, nodes, context.tree):
                    if found.write.lineno not in lines:
                        facts = {"tensor": f"`{found.buffer}`", "collective": f"the `{found.collective}` before"}
                        advice = _HELP.format(handle=found.handle, late=found.wait, line=found.write.lineno)
                        yield context.sites.warning(
                            collective_buffer_modified.RULE, found.write, function.name, advice, **facts
                        )


class _Late(NamedTuple):
    """A write of a buffer before the wait for the collective that still uses it.

    Attributes:
        write: the statement that writes the buffer.
        buffer: the buffer, as written.
        handle: the handle that is waited for, as written.
        wait: the line of the wait.
        collective: the function that starts the collective.
    """

    write: ast.stmt
    buffer: str
    handle: str
    wait: int
    collective: str


def _late_waits(steps: Sequence[ast.stmt], nodes: Sequence[ast.AST], tree: ast.Module) -> Iterator[_Late]:
    """Yield the writes among some statements that come before the wait for a collective, which they start again.

    Args:
        steps: the statements.
        nodes: the nodes of the function.
        tree: the file.
    """
    values = {text(target): node.value for node in nodes if isinstance(node, ast.Assign) for target in node.targets}
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    for index, step in enumerate(steps):
        handle, call = _launch(step)
        if handle is None or call is None:
            continue
        sent = [text(part) for part in arguments_of(call) if _is_kept_with(handle, values.get(text(part), part))]
        write = next((before for before in reversed(steps[:index]) if _written(before) in sent), None)
        if write is None or any(each.lineno < write.lineno and may_wait(last_name(each.func)) for each in calls):
            continue
        names = {text(handle), *(name for name, value in values.items() if _mentions(value, handle))}
        methods = _waiting_methods(tree, handle)
        waits = [each.lineno for each in calls if _waits(each, names, methods)]
        late = next((line for line in waits if write.lineno < line < step.lineno), 0)
        if late and min(waits) > write.lineno:
            yield _Late(write, _written(write), text(handle), late, last_name(call.func))


def _is_kept_with(handle: ast.expr, buffer: ast.expr) -> bool:
    """Return whether an object keeps a buffer beside the handle of its collective: both at the same index, or alone."""
    match handle, buffer:
        case ast.Subscript(slice=one), ast.Subscript(slice=other):
            return text(one) == text(other) and bool(own_container(buffer))
        case ast.Attribute(), ast.Attribute():
            return bool(own_attribute(buffer))
        case _:
            return False


def _mentions(value: ast.expr, handle: ast.expr) -> bool:
    return any(isinstance(part, ast.expr) and text(part) == text(handle) for part in walk(value))


def _is_asynchronous(node: ast.AST) -> bool:
    """Return whether a call starts a collective that it does not wait for."""
    if not isinstance(node, ast.Call) or (known := FUNCTIONS.get(last_name(node.func))) is None:
        return False
    given = {word.arg: word.value for word in node.keywords}.get("async_op")
    return known.always_asynchronous or (isinstance(given, ast.Constant) and given.value is True)


def _launch(step: ast.stmt) -> tuple[ast.expr | None, ast.Call | None]:
    """Return the kept handle that a statement sets, and the collective; None for any other statement."""
    match step:
        case ast.Assign(targets=[target], value=ast.Call() as call) if _is_asynchronous(call):
            return (target, call) if own_attribute(target) or own_container(target) else (None, None)
        case _:
            return None, None


def _written(step: ast.stmt) -> str:
    """Return the tensor that a statement writes in place; "" if it writes none."""
    match step:
        case ast.Expr(value=ast.Call() as call) if last_name(call.func) not in NO_WRITES:
            changed = changed_in_place(call)
        case ast.Assign(targets=[ast.Subscript(value=target)]):
            changed = target
        case _:
            changed = None
    while isinstance(changed, ast.Subscript) and not own_container(changed):
        changed = changed.value
    return "" if changed is None else text(changed)


def _waits(node: ast.AST, names: set[str], methods: frozenset[str]) -> bool:
    """Return whether a call waits for a handle, itself or in a method of the object."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr="wait")):
            return text(owner) in names
        case ast.Call(func=func):
            return own_attribute(func) in methods
        case _:
            return False


def _waiting_methods(tree: ast.Module, handle: ast.expr) -> frozenset[str]:
    """Return the methods in a file that mention where a handle is kept, and wait for something."""
    kept = own_attribute(handle) or own_container(handle)
    return frozenset(name for name, mentioned in _methods_with_waits(tree) if kept in mentioned)


@once
def _methods_with_waits(tree: ast.Module) -> list[tuple[str, frozenset[str]]]:
    """Return the functions in a file that call `wait()`, each with the attributes of `self` that it mentions."""
    functions = [node for node in nodes_in(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [
        (function.name, frozenset(map(own_attribute, walk(function))))
        for function in functions
        if any(isinstance(node, ast.Call) and last_name(node.func) == "wait" for node in walk(function))
    ]
