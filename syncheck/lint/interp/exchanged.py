"""Variables that asynchronous collectives read or write."""

import ast
from collections.abc import Iterable, Iterator

from syncheck.lint.file_calls import argument_of, calls_by_name
from syncheck.lint.nodes import Method, functions_in, nodes_in, once, parameters, text, viewed, walk
from syncheck.semantics.collectives import FUNCTIONS
from syncheck.source.expressions import last_name

VIEWS = frozenset("view reshape flatten narrow detach unsqueeze squeeze view_as".split())
"""Methods of a tensor whose result shares its memory."""
_OPERATION = "P2POp"
"""One of the operations that `batch_isend_irecv` starts."""


@once
def exchanged_variables(tree: ast.Module) -> frozenset[str]:
    """Return the variables and attributes that asynchronous collectives use, as they are written.

    The functions of the file that make them are given as "name()".

    With NCCL these tensors are on a GPU. With other backends, too, they must not change while a collective runs.
    """
    calls = calls_by_name(tree)
    kinds = (*FUNCTIONS, _OPERATION)
    used = {name for kind in kinds for call in calls.get(kind, ()) for name in _tensors_of(kind, call)} - {""}
    if used:
        used.update(*(_given(calls.get(node.name, ()), node, used) for node in functions_in(tree)))
    assigned = [node for node in nodes_in(tree) if isinstance(node, ast.Assign)] if used else []
    views = [node for node in assigned if isinstance(node.value, ast.Subscript | ast.Call)]
    used |= {_source(node.value) for node in views if any(text(target) in used for target in node.targets)}
    made = [
        value
        for node in assigned
        if any(text(target) in used for target in node.targets)
        for value in items_of(node.value)
    ]
    used |= {f"{last_name(value.func)}()" for value in made if isinstance(value, ast.Call)}
    return frozenset(used - {""})


def passed_on(function: Method, tree: ast.Module) -> set[str]:
    """Return the variables that a function passes to others of its file, which start collectives with them."""
    called = {last_name(node.func): node for node in walk(function) if isinstance(node, ast.Call)}
    starters = [node for node in functions_in(tree) if node.name in called and node is not function and _starts(node)]
    return set().union(*(_given([called[node.name]], node, _used_by(node)) for node in starters)) - {""}


def target_of(value: ast.AST, statement: ast.AST, function: str) -> str:
    """Return the variable or attribute that is bound to a value, or to a list of such values; "" if none is.

    Args:
        value: the value.
        statement: the statement around it.
        function: the current function. If it returns the value, its name is returned, followed by "()".
    """
    match statement:
        case ast.Assign(targets=[ast.Name() | ast.Attribute() as target], value=bound) if value in items_of(bound):
            return text(target)
        case ast.Return(value=ast.expr() as bound) if value in items_of(bound):
            return f"{function}()"
        case _:
            return ""


def items_of(value: ast.expr) -> list[ast.expr]:
    """Return the expressions of which an expression returns one, or each of the items of a list or a dictionary."""
    match value:
        case ast.ListComp(elt=made) | ast.DictComp(value=made):
            return items_of(made)
        case ast.List(elts=parts) | ast.Dict(values=parts):
            return [item for part in parts for item in items_of(part)]
        case ast.IfExp(body=first, orelse=second):
            return [*items_of(first), *items_of(second)]
        case _:
            return [value]


def _tensors_of(kind: str, call: ast.Call) -> Iterator[str]:
    """Yield the tensors that a call passes to a collective, if it returns before the collective ends."""
    if kind == _OPERATION:
        sent = argument_of(call, "tensor", 1)
        yield _source(sent) if sent is not None else ""
    collective = FUNCTIONS.get(kind)
    if collective is None or not (
        collective.always_asynchronous or any(keyword.arg == "async_op" for keyword in call.keywords)
    ):
        return
    for position, name in (*collective.writes, *collective.reads):
        given = argument_of(call, name, position)
        yield _source(given) if given is not None else ""


def _given(calls: Iterable[ast.Call], function: Method, used: set[str]) -> set[str]:
    """Return the variables that calls pass to a function for the parameters that it passes to such collectives."""
    declared = [parameter.arg for parameter in parameters(function)]
    first = declared[:1] == ["self"]
    given = ((call, name, index - first) for index, name in enumerate(declared) if name in used for call in calls)
    passed = (argument_of(call, name, index) for call, name, index in given if _starts(function))
    return {_source(value) for value in passed if value is not None}


def _starts(function: Method) -> bool:
    """Return whether a function starts asynchronous collectives itself."""
    return bool(_used_by(function))


@once
def _used_by(function: Method) -> set[str]:
    """Return the variables that the asynchronous collectives of a function use."""
    calls = (node for node in walk(function) if isinstance(node, ast.Call))
    return {name for call in calls for name in _tensors_of(last_name(call.func), call)} - {""}


def _source(value: ast.expr) -> str:
    """Return the variable that an expression is, or is a view of; "" for anything else.

    An attribute of any object is given as one of `self`, as the constructor of its class assigns it.
    """
    match source := viewed(value, VIEWS):
        case ast.Name():
            return source.id
        case ast.Attribute(value=ast.Name(), attr=name):
            return f"self.{name}"
        case _:
            return ""
