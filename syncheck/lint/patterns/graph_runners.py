"""Functions that replay a CUDA graph and return its results without a copy, and how a file names their objects."""

import ast
import re
from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple

from syncheck.lint.interp.functions import own_nodes
from syncheck.lint.nodes import (
    VIEWS,
    FindClass,
    Method,
    bound_names,
    changed_in_place,
    classes_in,
    functions_in,
    methods_of,
    names,
    own_attribute,
    parameters,
    stored_names,
    text,
    viewed,
    walk,
)
from syncheck.lint.patterns.object_types import types_of
from syncheck.source.expressions import last_name

_LAST_WORD = re.compile(r"[A-Z]?[a-z]+$|[A-Z]+$")
_NO_MEMORY = frozenset({"shape", "dtype", "device", "ndim"})
"""Members of a tensor that are no tensors."""
_CALLED = ("__call__", "forward")


class Results(NamedTuple):
    """What a function returns.

    Attributes:
        are_kept: for each returned value, whether it is a result of a graph. Without a tuple, there is one value.
        is_bucketed: whether the function chooses among several graphs, so that two calls may replay two of them.
    """

    are_kept: tuple[bool, ...] = ()
    is_bucketed: bool = False

    def __bool__(self) -> bool:
        return any(self.are_kept)


_NOTHING = Results()
_LIKELY = re.compile(r"graph|runner|captur|replay", re.IGNORECASE)


def may_run_graphs(source: str) -> bool:
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
        """Return which values a call returns are results of a graph.

        Args:
            call: the call.
            function: the function that contains it.
            kind: the class of that function, if it is a method.
        """
        match call.func:
            case ast.Name(id=name) if name in self._functions:
                return self._functions[name]
            case ast.Attribute(value=ast.Name(id="self"), attr=name) if kind is not None and name in methods_of(kind):
                return self._kinds.get(kind.name, {}).get(name, _NOTHING)
            case ast.Attribute(value=owner, attr=name) if any(name in methods for methods in self._kinds.values()):
                return self._methods(owner, function, kind).get(name, _NOTHING)
            case _:
                methods = self._methods(call.func, function, kind)
                return next((methods[name] for name in _CALLED if name in methods), _NOTHING)

    def _methods(self, owner: ast.expr, function: Method, kind: ast.ClassDef | None) -> Mapping[str, Results]:
        """Return what the methods of an object return, by its annotation, its constructor or else its name."""
        named = types_of(owner, function, kind)
        found = next((self._kinds[name] for name in named if name in self._kinds), None)
        if found is None and set(named) <= self._aliases and last_name(owner) not in self._kinds:
            word = _last_word(last_name(owner))
            found = next((methods for name, methods in self._kinds.items() if word and _last_word(name) == word), None)
        return found or {}


def _results_of_methods(kind: ast.ClassDef) -> dict[str, Results]:
    """Return the methods of a class that return results of graphs."""
    captured = _captured_by(kind)
    found = ((name, results_of(method, captured)) for name, method in methods_of(kind).items())
    return {name: results for name, results in found if results}


def _last_word(name: str) -> str:
    """Return the last word of a name in lower case: "runner" of "GraphRunner" and "graph_runner"."""
    found: list[str] = _LAST_WORD.findall(name)
    return found[0].lower() if found else ""


def results_of(function: Method, captured: Set[str] | None = None) -> Results:
    """Return which values a function returns are results of a graph that it has replayed.

    Args:
        function: the function.
        captured: the attributes of its class that are bound to what a capture computes; None if unknown.
    """
    nodes = own_nodes(function)
    replays = [node.func for node in nodes if isinstance(node, ast.Call) and is_replay(node)]
    if not replays or any(_takes_turns(replay, nodes) for replay in replays):
        return _NOTHING
    first = min(replay.lineno for replay in replays)
    returned = [node.value for node in nodes if isinstance(node, ast.Return) and node.lineno > first and node.value]
    value = max(returned, key=lambda node: node.lineno, default=None)
    if value is None or any(isinstance(other, ast.Call) for other in returned if other is not value):
        return _NOTHING  # a caller may have asked for a copy
    roots = {_root(replay) for replay in replays} | {"self"} | _free_names(function, nodes)
    parts = value.elts if isinstance(value, ast.Tuple) else [value]
    given = {argument.arg for argument in parameters(function)}
    found = tuple(_is_static(part, nodes, roots, captured) and not _is_indexed(part, given) for part in parts)
    return Results(found, any(_is_chosen(replay) for replay in replays))


def _captured_by(kind: ast.ClassDef) -> set[str] | None:
    """Return the attributes that a class binds to what a capture computes; None if it captures nothing."""
    found: set[str] | None = None
    for method in methods_of(kind).values():
        nodes = own_nodes(method)
        blocks = [node for node in nodes if isinstance(node, ast.With) and _is_capture(node)]
        if blocks:
            inside = {node for block in blocks for step in block.body for node in walk(step)}
            made = stored_names(inside)
            assigned = [node for node in nodes if isinstance(node, ast.Assign)]
            kept = [node for node in assigned if node in inside or names(node.value) & made]
            targets = (part for node in kept for target in node.targets for part in walk(target))
            found = (found or set()) | {own_attribute(part) for part in targets} - {""}
    return found


def _is_capture(block: ast.With) -> bool:
    return any("graph(" in text(item.context_expr) for item in block.items)


def _is_chosen(replay: ast.expr) -> bool:
    """Return whether a replay is of one of several graphs: an item, or the graph of a variable."""
    return _root(replay) != "self" or any(isinstance(node, ast.Subscript) for node in walk(replay))


def _takes_turns(replay: ast.expr, nodes: Sequence[ast.AST]) -> bool:
    """Return whether a function replays the graphs of a list in turn, so that the next call replays another one."""
    indices = [node.slice for node in walk(replay) if isinstance(node, ast.Subscript)]
    chosen = {name for index in indices for name in names(index)}
    assigned = [node for node in nodes if isinstance(node, ast.Assign)]
    sources = [*indices, *(node.value for node in assigned if bound_names(node) & chosen)]
    used = {own_attribute(part) for source in sources for part in walk(source)} - {""}
    changed: list[ast.expr] = [node.target for node in nodes if isinstance(node, ast.AugAssign)]
    changed += [target for node in assigned for target in node.targets]
    return bool(used & set(map(own_attribute, changed)))


def is_replay(call: ast.Call) -> bool:
    """Return whether a call replays a graph, judging by its name."""
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


def _is_static(value: ast.expr, nodes: Sequence[ast.AST], roots: Set[str], captured: Set[str] | None) -> bool:
    """Return whether an expression is memory that exists before the function, of its object or beside its graph."""
    source = viewed(value, VIEWS)
    if _is_copied(value) or any(_fills(node, source) for node in nodes):
        return False
    if isinstance(source, ast.Name) and source.id not in roots:
        bound = [node.value for node in nodes if isinstance(node, ast.Assign) and source.id in bound_names(node)]
        stores = [node for node in nodes if isinstance(node, ast.Name) and node.id == source.id]
        n_stores = sum(isinstance(node.ctx, ast.Store) for node in stores)
        is_bound_once = n_stores == len(bound) == 1 and source.id not in map(_root, bound)
        return is_bound_once and _is_static(bound[0], nodes, roots, captured)
    if not isinstance(source, ast.Name | ast.Attribute) or _root(source) not in roots or text(source) == "self":
        return False
    if isinstance(source, ast.Attribute) and source.attr in _NO_MEMORY:
        return False
    if captured is not None and own_attribute(source) and own_attribute(source) not in captured:
        return False
    changed = (target for node in nodes if isinstance(node, ast.Assign) for target in node.targets)
    return not any(text(part) == text(source) for target in changed for part in walk(target))


def _is_indexed(value: ast.expr, given: Set[str]) -> bool:
    """Return whether an expression selects what a parameter names, perhaps rows, which are copied then."""
    return isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Name) and value.slice.id in given


def _is_copied(value: ast.expr) -> bool:
    """Return whether an expression selects elements by a condition or by a computed index, which copies them."""
    return isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Compare | ast.UnaryOp | ast.Call)


def _fills(node: ast.AST, source: ast.expr) -> bool:
    """Return whether a call writes to some memory, which is then a copy of its own."""
    changed = changed_in_place(node)
    return changed is not None and text(viewed(changed, VIEWS)) == text(source)
