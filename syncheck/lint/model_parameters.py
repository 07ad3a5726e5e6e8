"""The parameters of models that a class or a method works on. An optimizer changes them on the current stream."""

import ast
import re
from collections.abc import Iterator

from syncheck.lint.interp.functions import own_nodes
from syncheck.lint.nodes import Method, bound_names, names, once, own_attribute, parameters, walk
from syncheck.source.expressions import last_name

SOURCES = frozenset({"parameters", "named_parameters"})
"""Methods of a model that return its parameters."""
_PASSING = frozenset({"list", "tuple", "zip", "enumerate", "reversed", "sorted", "dict"})
"""Functions whose result contains the items of their arguments."""
_PAIRING = frozenset({"zip", "enumerate"})
_PARAMETER = re.compile(r"\b(?:nn\.)?Parameter\b")


@once
def kept_parameters(kind: ast.ClassDef) -> frozenset[str]:
    """Return the attributes of `self` in which a class keeps the parameters of a model."""
    found: set[str] = set()
    for method in (node for node in kind.body if isinstance(node, Method)):
        variables = parameters_in(method, frozenset())
        for node in walk(method):
            match node:
                case ast.Assign(targets=[target], value=value) if own_attribute(target) and _holds(
                    value, variables, set()
                ):
                    found.add(own_attribute(target))
                case ast.Call(func=ast.Attribute(value=owner, attr="append"), args=[ast.Name(id=name)]) if (
                    name in variables and own_attribute(owner)
                ):
                    found.add(own_attribute(owner))
                case _:
                    pass
    return frozenset(found)


def parameters_in(method: Method, kept: frozenset[str]) -> set[str]:
    """Return the variables of a method that are parameters of a model, or collections of them.

    Args:
        method: the method.
        kept: the attributes of `self` that hold parameters; see `kept_parameters`.
    """
    found = {a.arg for a in parameters(method) if a.annotation and _PARAMETER.search(ast.unparse(a.annotation))}
    for _ in range(2):  # a variable may be bound below its first use, in a loop
        for node in sorted(own_nodes(method), key=lambda node: getattr(node, "lineno", 0)):
            found |= set(_bound(node, found, kept))
    return found


def _bound(node: ast.AST, variables: set[str], kept: frozenset[str]) -> Iterator[str]:
    match node:
        case ast.Assign(value=value) if _holds(value, variables, kept):
            yield from bound_names(node)
        case ast.For(target=target, iter=iterated) | ast.comprehension(target=target, iter=iterated):
            yield from _items(target, iterated, variables, kept)
        case _:
            pass


def _items(target: ast.expr, iterated: ast.expr, variables: set[str], kept: frozenset[str] | set[str]) -> Iterator[str]:
    """Yield the variables of a loop that are parameters."""
    called = last_name(iterated.func) if isinstance(iterated, ast.Call) else ""
    match target, iterated:
        case ast.Tuple(elts=parts), ast.Call(args=sources) if called in _PAIRING:
            offset = int(called == "enumerate")
            for part, source in zip(parts[offset:], sources, strict=False):
                yield from _items(part, source, variables, kept)
        case ast.Tuple(elts=[_, ast.Name(id=name)]), _ if called == "named_parameters":
            yield name
        case ast.Name(id=name), _ if _holds(iterated, variables, kept):
            yield name
        case _:
            pass


def _holds(value: ast.expr, variables: set[str], kept: frozenset[str] | set[str]) -> bool:
    """Return whether an expression is a collection of parameters, of their data or of their gradients."""
    match value:
        case ast.Call(func=function, args=args) if last_name(function) in _PASSING and args:
            return any(_holds(part, variables, kept) for part in args)
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in SOURCES
        case ast.ListComp(elt=element, generators=[generator]):
            inside = set(_items(generator.target, generator.iter, variables, kept))
            return bool(inside & names(element))
        case ast.Name(id=name):
            return name in variables
        case _:
            return own_attribute(value) in kept
