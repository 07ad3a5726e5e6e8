"""The types of objects, as their annotations and their constructors say."""

import ast
from collections.abc import Iterable, Iterator

from syncheck.lint.interp.functions import own_nodes
from syncheck.lint.nodes import Method, methods_of, own_attribute, parameters, text, without_none
from syncheck.source.expressions import last_name


def types_of(owner: ast.expr, function: Method, kind: ast.ClassDef | None) -> list[str]:
    """Return the names of the types that an object is annotated with or made by."""
    if isinstance(owner, ast.Name):
        return [*_annotated(function, owner.id), *_made(own_nodes(function), owner)]
    if kind is None or not own_attribute(owner):
        return []
    found: list[str] = []
    for method in methods_of(kind).values():
        nodes = own_nodes(method)
        found += _made(nodes, owner)
        for node in nodes:
            match node:
                case ast.Assign(targets=[target], value=ast.Name(id=name)) if text(target) == text(owner):
                    found += _annotated(method, name)
                case _:
                    pass
    fields = (step for step in kind.body if isinstance(step, ast.AnnAssign) and text(step.target) == last_name(owner))
    return [*found, *(name for step in fields if (name := _type_name(step.annotation)))]


def _annotated(function: Method, name: str) -> list[str]:
    """Return the type that a parameter is annotated with."""
    given = (each.annotation for each in parameters(function) if each.arg == name)
    return [found for annotation in given if (found := _type_name(annotation))]


def _type_name(annotation: ast.expr | None) -> str:
    plain = without_none(annotation)
    return last_name(plain) if isinstance(plain, ast.Name | ast.Attribute) else ""


def _made(nodes: Iterable[ast.AST], owner: ast.expr) -> list[str]:
    """Return what an object is assigned as the result of: `Runner` of `self.runner = Runner(model)`."""
    found: list[str] = []
    for node in nodes:
        match node:
            case ast.Assign(targets=[target], value=value):
                found += (last_name(made.func) for made in _values_for(owner, target, value))
            case _:
                pass
    return found


def _values_for(owner: ast.expr, target: ast.expr, value: ast.expr) -> Iterator[ast.Call]:
    """Yield the calls whose results an assignment binds an object to, also as one of several."""
    match target, value:
        case ast.Tuple(elts=targets), ast.Tuple(elts=values) if len(targets) == len(values):
            for part, each in zip(targets, values, strict=True):
                yield from _values_for(owner, part, each)
        case _, ast.Call() if text(target) == text(owner):
            yield value
        case _:
            pass
