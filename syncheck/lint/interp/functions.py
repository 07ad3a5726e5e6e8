"""Calls of the program's functions: binding arguments to parameters."""

import ast
from collections.abc import Callable

from syncheck.lint import deferred
from syncheck.lint.interp.identities import named
from syncheck.lint.interp.values import Call, Function, Mapping, Sequence, Value
from syncheck.lint.nodes import Method, children, function_around, functions_in, once

HOOKS = "_forward_hooks"
"""Attribute of a layer with hooks, which run around its `forward`. Source: torch/nn/modules/module.py."""
_YIELDING = frozenset({ast.Yield, ast.YieldFrom})
_CLOSED = frozenset({ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, *deferred.KINDS.values()})
"""Nodes whose contents belong to another function."""


def defaults_of(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, evaluate: Callable[[ast.expr], Value]
) -> dict[str, Value]:
    """Return a function's default arguments by name, evaluated where the function is defined."""
    arguments = node.args
    if not arguments.defaults and not any(arguments.kw_defaults):
        return {}
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
    """Return the values that a call binds to a function's parameters."""
    arguments = function.node.args
    positional, names = _parameters(function.node)
    bound: dict[str, Value] = dict(zip(positional, map(named, call.args), strict=False))
    bound |= {name: named(value) for name, value in call.kwargs.items() if name in names}
    for name in names:
        if name not in bound:
            known = function.defaults.get(name) if call.is_complete else None
            bound[name] = Value() if known is None else known
    if arguments.vararg is not None:
        bound[arguments.vararg.arg] = Sequence(list(call.args[len(positional) :]), is_open=not call.is_complete)
    if arguments.kwarg is not None:
        extra = {name: value for name, value in call.kwargs.items() if name not in names}
        bound[arguments.kwarg.arg] = Mapping(dict(extra), is_open=not call.is_complete)
    return bound


def without_self(call: Call) -> Call:
    """Return a call of a method without the object that it is called on."""
    return Call(call.node, call.args[1:], call.kwargs, call.is_complete)


@once
def _parameters(node: ast.AST) -> tuple[list[str], list[str]]:
    """Return the names of a function's positional parameters, and of all its parameters."""
    arguments: ast.arguments = node.args  # type: ignore[attr-defined]  # the node is a function
    positional = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    return positional, [*positional, *(argument.arg for argument in arguments.kwonlyargs)]


@once
def is_generator(node: ast.AST) -> bool:
    """Return whether a function is a generator function."""
    return deferred.may_yield(node) and any(inner.__class__ in _YIELDING for inner in own_nodes(node))


def block_nodes(block: ast.With | ast.AsyncWith) -> list[ast.AST]:
    """Return the nodes that run in a block. Functions and classes are only defined there."""
    defined = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    statements = [statement for statement in block.body if not isinstance(statement, defined)]
    return [node for statement in statements for node in (statement, *own_nodes(statement))]


@once
def functions_with_nodes(tree: ast.Module) -> list[tuple[Method, list[ast.AST]]]:
    """Return the functions of a file, also nested ones, each with its nodes without those of nested functions."""
    return [(function, list(own_nodes(function))) for function in functions_in(tree)]


def nodes_around(tree: ast.Module, line: int) -> list[ast.AST]:
    """Return the nodes of the function that a line is in, or of the file outside of functions."""
    return own_nodes(function_around(tree, line))


@once
def own_nodes(node: ast.AST) -> list[ast.AST]:
    """Return the nodes of a function without those of nested functions."""
    found: list[ast.AST] = []
    waiting = children(node)
    while waiting:
        inner = waiting.pop()
        found.append(inner)
        if inner.__class__ not in _CLOSED:
            waiting += children(inner)
    return found
