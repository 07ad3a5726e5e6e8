"""Functions that replay a CUDA graph and return its results without a copy, and how a file names their objects."""

import ast
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from syncheck.lint.interp.functions import own_nodes
from syncheck.lint.nodes import (
    VIEWS,
    Method,
    bound_names,
    classes_in,
    functions_in,
    methods_of,
    own_attribute,
    parameters,
    stored_names,
    text,
    viewed,
    walk,
    without_none,
)
from syncheck.source.expressions import last_name

_LAST_WORD = re.compile(r"[A-Z]?[a-z]+$|[A-Z]+$")
_CALLED = ("__call__", "forward")

Results = tuple[bool, ...]
"""For each returned value, whether it is a result of a graph. A function that returns no tuple returns one value."""
_LIKELY = re.compile(r"graph|runner|captur|replay", re.IGNORECASE)
FindClass = Callable[[str], ast.ClassDef | None]
"""Returns a class of another file by its full name."""


def can_matter(source: str) -> bool:
    """Return whether a file may use such functions, of its own or imported."""
    return ".replay(" in source or "Graph" in source or "Runner" in source


def imported_runners(imports: Mapping[str, str], find: FindClass) -> dict[str, ast.ClassDef]:
    """Return the imported classes that may have such functions, judging by their names.

    Args:
        imports: the names that a file imports -> their full names.
        find: finds a class.
    """
    likely = ((name, find(full)) for name, full in imports.items() if _LIKELY.search(full))
    return {name: kind for name, kind in likely if kind is not None}


class GraphRunners:
    """The functions of a file, and of the classes that it imports, that return results of graphs.

    Attributes:
        are_any: whether there is one.

    Args:
        tree: the file.
        imported: the classes that the file imports, by name.
    """

    def __init__(self, tree: ast.Module, imported: Mapping[str, ast.ClassDef]) -> None:
        own = {kind.name: kind for kind in classes_in(tree)}
        methods = {method for kind in own.values() for method in methods_of(kind).values()}
        others = ((function.name, results_of(function)) for function in functions_in(tree) if function not in methods)
        self._functions = {name: results for name, results in others if results}
        kinds = ((name, _results_of_methods(kind)) for name, kind in {**imported, **own}.items())
        self._kinds = {name: results for name, results in kinds if results}
        self._aliases = {name for step in tree.body if isinstance(step, ast.Assign) for name in bound_names(step)}
        self.are_any = bool(self._functions or self._kinds)

    def results(self, call: ast.Call, function: Method, kind: ast.ClassDef | None) -> Results:
        """Return which values a call returns are results of a graph; () if it calls no such function.

        Args:
            call: the call.
            function: the function that contains it.
            kind: the class of that function, if it is a method.
        """
        match call.func:
            case ast.Name(id=name) if name in self._functions:
                return self._functions[name]
            case ast.Attribute(value=ast.Name(id="self"), attr=name) if kind is not None and name in methods_of(kind):
                return self._kinds.get(kind.name, {}).get(name, ())
            case ast.Attribute(value=owner, attr=name) if any(name in methods for methods in self._kinds.values()):
                return self._methods(owner, function, kind).get(name, ())
            case _:
                methods = self._methods(call.func, function, kind)
                return next((methods[name] for name in _CALLED if name in methods), ())

    def _methods(self, owner: ast.expr, function: Method, kind: ast.ClassDef | None) -> Mapping[str, Results]:
        """Return what the methods of an object return, by its annotation, its constructor or else its name."""
        named = _types_of(owner, function, kind)
        found = next((self._kinds[name] for name in named if name in self._kinds), None)
        if found is None and set(named) <= self._aliases and last_name(owner) not in self._kinds:
            word = _last_word(last_name(owner))
            found = next((methods for name, methods in self._kinds.items() if word and _last_word(name) == word), None)
        return found or {}


def _results_of_methods(kind: ast.ClassDef) -> dict[str, Results]:
    """Return the methods of a class that return results of graphs."""
    found = ((name, results_of(method)) for name, method in methods_of(kind).items())
    return {name: results for name, results in found if results}


def _types_of(owner: ast.expr, function: Method, kind: ast.ClassDef | None) -> list[str]:
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


def _last_word(name: str) -> str:
    """Return the last word of a name in lower case: "runner" of "GraphRunner" and "graph_runner"."""
    found: list[str] = _LAST_WORD.findall(name)
    return found[0].lower() if found else ""


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
            case ast.Assign(targets=[target], value=ast.Call(func=called)) if text(target) == text(owner):
                found.append(last_name(called))
            case _:
                pass
    return found


def results_of(function: Method) -> Results:
    """Return which values a function returns are results of a graph that it has replayed; () if none is."""
    nodes = own_nodes(function)
    replays = [node for node in nodes if isinstance(node, ast.Call) and _is_replay(node)]
    if not replays:
        return ()
    first = min(call.lineno for call in replays)
    roots = {_root(call.func) for call in replays} | {"self"} | _free_names(function, nodes)
    returned = [node.value for node in nodes if isinstance(node, ast.Return) and node.lineno > first and node.value]
    if not returned:
        return ()
    value = max(returned, key=lambda node: node.lineno)
    parts = value.elts if isinstance(value, ast.Tuple) else [value]
    found = tuple(map(partial(_is_static, nodes=nodes, roots=roots), parts))
    return found if any(found) else ()


def _is_replay(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "replay" and not (call.args or call.keywords)


def _free_names(function: Method, nodes: Sequence[ast.AST]) -> set[str]:
    """Return the variables of enclosing functions that a function uses."""
    own = stored_names(nodes) | {each.arg for each in parameters(function)}
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    return used - own if function.col_offset else set()


def _root(node: ast.expr) -> str:
    """Return the variable that an expression begins with: `entry` of `entry.graphs[0].replay`; "" if there is none."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _is_static(value: ast.expr, nodes: Sequence[ast.AST], roots: set[str]) -> bool:
    """Return whether an expression is memory that exists before the function, of its object or beside its graph."""
    source = viewed(value, VIEWS)
    if isinstance(source, ast.Name) and source.id not in roots:
        bound = [node.value for node in nodes if isinstance(node, ast.Assign) and source.id in bound_names(node)]
        stores = [node for node in nodes if isinstance(node, ast.Name) and node.id == source.id]
        n_stores = sum(isinstance(node.ctx, ast.Store) for node in stores)
        return n_stores == len(bound) == 1 and source.id not in map(_root, bound) and _is_static(bound[0], nodes, roots)
    if not isinstance(source, ast.Name | ast.Attribute) or _root(source) not in roots or text(source) == "self":
        return False
    changed = (target for node in nodes if isinstance(node, ast.Assign) for target in node.targets)
    return not any(text(part) == text(source) for target in changed for part in walk(target))
