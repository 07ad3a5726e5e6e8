"""Calling functions of the program: which parameter gets which argument."""

import ast
from collections.abc import Callable, Iterator

from syncheck.lint import deferred
from syncheck.lint.interp.values import UNKNOWN, Call, Function, Mapping, Sequence, Value
from syncheck.lint.nodes import children, once

_YIELDING = frozenset({ast.Yield, ast.YieldFrom})
_CLOSED = frozenset({ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, *deferred.KINDS.values()})
"""Nodes whose insides are another function's."""


def defaults_of(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, evaluate: Callable[[ast.expr], Value]
) -> dict[str, Value]:
    """Return the default arguments of a function by name, evaluated where it is defined."""
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    found = {
        argument.arg: evaluate(default)
        for argument, default in zip(reversed(positional), reversed(arguments.defaults), strict=False)
    }
    for argument, kw_default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if kw_default is not None:
            found[argument.arg] = evaluate(kw_default)
    return found


def bind(function: Function, call: Call) -> dict[str, Value]:
    """Return the names that a call gives to a function's parameters; UNKNOWN where the value is not known."""
    arguments = function.node.args
    positional = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    bound: dict[str, Value] = dict(zip(positional, call.args, strict=False))
    keyword_names = {*positional, *(argument.arg for argument in arguments.kwonlyargs)}
    bound |= {name: value for name, value in call.kwargs.items() if name in keyword_names}
    for name in (*positional, *(argument.arg for argument in arguments.kwonlyargs)):
        if name not in bound:
            bound[name] = function.defaults.get(name, UNKNOWN) if call.is_complete else UNKNOWN
    if arguments.vararg is not None:
        bound[arguments.vararg.arg] = Sequence(list(call.args[len(positional) :]), is_open=not call.is_complete)
    if arguments.kwarg is not None:
        extra = {name: value for name, value in call.kwargs.items() if name not in keyword_names}
        bound[arguments.kwarg.arg] = Mapping(dict(extra), is_open=not call.is_complete)
    return bound


@once
def is_generator(node: ast.AST) -> bool:
    """Return whether a function yields."""
    return any(inner.__class__ in _YIELDING for inner in own_nodes(node))


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function, without those of functions inside it."""
    waiting = children(node)
    while waiting:
        inner = waiting.pop()
        yield inner
        if inner.__class__ not in _CLOSED:
            waiting += children(inner)
