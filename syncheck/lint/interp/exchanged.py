"""Variables that asynchronous collectives read or write."""

import ast
from collections.abc import Iterator

from syncheck.lint.file_calls import argument_of, calls_by_name
from syncheck.lint.nodes import once, text, viewed, walk
from syncheck.semantics.collectives import FUNCTIONS

VIEWS = frozenset("view reshape flatten narrow detach unsqueeze squeeze view_as".split())
"""Methods of a tensor whose result shares its memory."""


@once
def exchanged_variables(tree: ast.Module) -> frozenset[str]:
    """Return the variables and attributes that asynchronous collectives use, as they are written.

    With NCCL these tensors are on a GPU. With other backends, too, they must not change while a collective runs.
    """
    calls = calls_by_name(tree)
    used = {name for kind in FUNCTIONS for call in calls.get(kind, ()) for name in _tensors_of(kind, call)}
    assigned = [node for node in walk(tree) if isinstance(node, ast.Assign)] if used else []
    views = [node for node in assigned if isinstance(node.value, ast.Subscript | ast.Call)]
    used |= {_source(node.value) for node in views if any(text(target) in used for target in node.targets)}
    return frozenset(used - {""})


def _tensors_of(kind: str, call: ast.Call) -> Iterator[str]:
    """Yield the tensors that a call passes to a collective, if it returns before the collective ends."""
    collective = FUNCTIONS[kind]
    if not (collective.always_asynchronous or any(keyword.arg == "async_op" for keyword in call.keywords)):
        return
    for position, name in (*collective.writes, *collective.reads):
        given = argument_of(call, name, position)
        yield _source(given) if given is not None else ""


def _source(value: ast.expr) -> str:
    """Return the variable or attribute of `self` that an expression is, or is a view of; "" for anything else."""
    match source := viewed(value, VIEWS):
        case ast.Name() | ast.Attribute(value=ast.Name(id="self")):
            return text(source)
        case _:
            return ""
