"""Loops that keep what a function returns after it has replayed a CUDA graph (SYN906).

The function returns the graph's own memory, which its next call overwrites.
"""

import ast
from collections.abc import Collection, Iterator, Sequence

from syncheck.findings import Finding
from syncheck.lint.interp.functions import functions_with_nodes
from syncheck.lint.locations import main_lines_of
from syncheck.lint.nodes import NO_VALUES, VIEWS, Method, classes_of_methods, names, stored_names, text, viewed, walk
from syncheck.lint.patterns.context import Context
from syncheck.lint.patterns.graph_runners import GraphRunners, Results, imported_runners, may_run_graphs
from syncheck.lint.patterns.object_types import types_of
from syncheck.rules import graph_result_overwritten
from syncheck.source.expressions import last_name
from syncheck.source.words import words_of

_ADDING = frozenset({"append", "appendleft", "add"})
_TAKING = frozenset({"clear", "pop", "popleft"})
_DICTIONARIES = frozenset({"dict", "defaultdict", "OrderedDict"})
_SIZES = frozenset({"size", "sizes", "bucket", "buckets", "shape", "shapes"})
_HELP = "keep a copy: `{value}.clone()`"


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return may_run_graphs(source)


def findings(context: Context) -> Iterator[Finding]:
    """Yield where such results are kept. They are warnings: each call may replay another graph."""
    imported = imported_runners(context.source.imports, context.find_class)
    runners = GraphRunners(context.tree, imported)
    kinds, lines = classes_of_methods(context.tree), main_lines_of(context.known)
    reported = [finding.location.frame for finding in context.known if finding.rule is graph_result_overwritten.RULE]
    for function, nodes in functions_with_nodes(context.tree) if runners.are_any else ():
        if any(function.lineno <= frame.line <= (function.end_lineno or function.lineno) for frame in reported):
            continue
        loops = [node for node in nodes if isinstance(node, ast.For | ast.AsyncFor | ast.While)]
        kept = [place for loop in loops for place in _Loop(loop, runners, function, kinds.get(function)).kept(nodes)]
        kept += [place for node in nodes for place in _listed(node, runners, function, kinds.get(function))]
        kept += _used_after_next(nodes, runners, function, kinds.get(function))
        for node, value in kept:
            if node.lineno not in lines:
                lines.add(node.lineno)
                advice = _HELP.format(value=text(value))
                yield context.sites.warning(
                    graph_result_overwritten.RULE, node, function.name, advice, tensor=f"`{text(value)}`"
                )


class _Loop:
    """A loop that calls such functions.

    Args:
        loop: the loop.
        runners: the functions.
        function: the function that contains the loop.
        kind: its class, if it is a method.
    """

    def __init__(
        self, loop: ast.For | ast.AsyncFor | ast.While, runners: GraphRunners, function: Method,
        kind: ast.ClassDef | None,
    ) -> None:  # fmt: skip
        self._function, self._kind = function, kind
        self._nodes = [node for step in loop.body for node in walk(step)]
        bound = stored_names([*self._nodes, *(walk(loop.target) if not isinstance(loop, ast.While) else ())])
        calls = [node for node in self._nodes if isinstance(node, ast.Call) and _is_same(node.func, bound)]
        found = {call: runners.results(call, function, kind) for call in calls}
        self._calls = {call: each for call, each in found.items() if each and not _is_of_size(call, each, loop)}
        self._taken = dict(self._variables())

    def _variables(self) -> Iterator[tuple[str, ast.Call]]:
        """Yield the variables that only hold results in the loop, each with the call."""
        stores = [node.id for node in self._nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
        for node in self._nodes:
            if not isinstance(node, ast.Assign) or node.value not in self._calls:
                continue
            assert isinstance(node.value, ast.Call)  # one of the calls
            results = self._calls[node.value].are_kept
            for target in node.targets:
                parts = target.elts if isinstance(target, ast.Tuple) else [target]
                flags = results if len(parts) == len(results) else [all(results)] * len(parts)
                for part, is_result in zip(parts, flags, strict=True):
                    if is_result and isinstance(part, ast.Name) and stores.count(part.id) == 1:
                        yield part.id, node.value

    def _source(self, value: ast.expr) -> ast.Call | None:
        """Return the call whose result an expression is, or is a view of."""
        source = viewed(value, VIEWS)
        if isinstance(source, ast.Call):
            return source if source in self._calls and all(self._calls[source].are_kept) else None
        return self._taken.get(source.id) if isinstance(source, ast.Name) else None

    def kept(self, nodes: Sequence[ast.AST]) -> Iterator[tuple[ast.stmt | ast.expr, ast.expr]]:
        """Yield where the loop keeps a result, and the result; `nodes`: the nodes of the function."""
        for node in self._nodes if self._calls else ():
            match node:
                case ast.Call(func=ast.Attribute(value=owner, attr=name), args=[value]) if name in _ADDING:
                    if self._fills(owner) and not _is_bounded(owner, nodes) and not self._is_own_class(owner):
                        yield from ((node, part) for part in _parts(value) if self._source(part))
                case ast.Assign(targets=[ast.Subscript(value=owner, slice=key)], value=value):
                    call = self._source(value)
                    is_new = call is not None and not isinstance(key, ast.Constant) and not names(key) & names(call)
                    is_new = is_new and call is not None and not self._calls[call].is_bucketed
                    if is_new and self._fills(owner) and _is_dictionary(owner, nodes):
                        yield node, value
                case ast.Assign(targets=[target], value=value):
                    pairs = _pairs(target, value)
                    yield from ((node, part) for name, part in pairs if self._is_previous(name, part, node))
                case _:
                    pass

    def _is_own_class(self, owner: ast.expr) -> bool:
        """Return whether a container is of a class of the program, which may copy what it gets."""
        return any(name[:1].isupper() for name in types_of(owner, self._function, self._kind))

    def _fills(self, owner: ast.expr) -> bool:
        """Return whether a container only gets more items in the loop."""
        written = text(owner)
        for node in self._nodes:
            match node:
                case ast.Call(func=ast.Attribute(value=other, attr=name)) if name in _TAKING and text(other) == written:
                    return False
                case ast.Assign(targets=targets) if written in map(text, targets):
                    return False
                case _:
                    pass
        return True

    def _is_previous(self, target: ast.expr, value: ast.expr, node: ast.Assign) -> bool:
        """Return whether a variable holds a result until after the next call, and is used then."""
        call = self._source(value)
        if call is None or call is value or not isinstance(target, ast.Name):
            return False
        used = set(walk(call))
        reads = [
            inner.lineno
            for inner in self._nodes
            if isinstance(inner, ast.Name) and inner.id == target.id and isinstance(inner.ctx, ast.Load)
            and inner not in used
        ]  # fmt: skip
        return any(call.lineno < line < node.lineno for line in reads if not self._is_test(target.id, line))

    def _is_test(self, name: str, line: int) -> bool:
        """Return whether a line only compares a variable to None."""
        tests = [node for node in self._nodes if isinstance(node, ast.Compare) and node.lineno == line]
        return any(name in names(test) and isinstance(test.ops[0], ast.Is | ast.IsNot) for test in tests)


def _listed(
    node: ast.AST, runners: GraphRunners, function: Method, kind: ast.ClassDef | None
) -> Iterator[tuple[ast.stmt | ast.expr, ast.expr]]:
    """Yield a list comprehension of results."""
    if isinstance(node, ast.ListComp):
        bound = stored_names(inner for loop in node.generators for inner in walk(loop.target))
        call = viewed(node.elt, VIEWS)
        if isinstance(call, ast.Call) and not names(call.func) & bound:
            results = runners.results(call, function, kind)
            is_kept = all(results.are_kept) and not _is_of_size(call, results, node.generators[0])
            if results and is_kept and _is_same(call.func, bound):
                yield node, node.elt


def _used_after_next(
    nodes: Sequence[ast.AST], runners: GraphRunners, function: Method, kind: ast.ClassDef | None
) -> Iterator[tuple[ast.stmt | ast.expr, ast.expr]]:
    """Yield calls whose result is used after the next call of the same function, outside loops and branches."""
    latest: dict[str, tuple[ast.Assign, str]] = {}  # function, as written -> the assignment of its result, the variable
    for step in function.body:
        match step:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=called) as call):
                before = latest.pop(text(called), None)
                results = runners.results(call, function, kind)
                if results and all(results.are_kept) and not results.is_bucketed:
                    latest[text(called)] = (step, name)
                if before is not None and _is_read_after(before[1], step, nodes):
                    yield before[0], before[0].value
            case _:
                pass


def _is_read_after(name: str, step: ast.stmt, nodes: Sequence[ast.AST]) -> bool:
    """Return whether a variable that is bound once is read after a statement."""
    shapes = {node.value for node in nodes if isinstance(node, ast.Attribute) and node.attr in NO_VALUES}
    uses = [node for node in nodes if isinstance(node, ast.Name) and node.id == name and node not in shapes]
    stores = [node for node in uses if isinstance(node.ctx, ast.Store)]
    return len(stores) == 1 and any(node.lineno > (step.end_lineno or step.lineno) for node in uses)


def _is_same(called: ast.expr, bound: Collection[str]) -> bool:
    """Return whether a call is of the same object in each iteration; `bound`: the variables that change."""
    return not names(called) & set(bound) and not any(isinstance(node, ast.Subscript) for node in walk(called))


def _is_of_size(call: ast.Call, results: Results, loop: ast.For | ast.AsyncFor | ast.While | ast.comprehension) -> bool:
    """Return whether a loop is over sizes, for each of which a runner that it calls has another graph."""
    if isinstance(loop, ast.While) or not results.is_bucketed or not names(loop.target) & names(call):
        return False
    return isinstance(loop.iter, ast.Tuple | ast.List) or bool(words_of(last_name(loop.iter)) & _SIZES)


def _is_bounded(owner: ast.expr, nodes: Sequence[ast.AST]) -> bool:
    """Return whether a function makes a container that drops old items."""
    made = (node.value for node in nodes if isinstance(node, ast.Assign) and text(owner) in map(text, node.targets))
    return any("maxlen" in text(value) for value in made)


def _parts(value: ast.expr) -> list[ast.expr]:
    """Return the items of a tuple, a list or a dictionary, or else the value."""
    match value:
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Dict(values=parts):
            return parts
        case _:
            return [value]


def _pairs(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    """Return the variables that an assignment binds, each with its value."""
    match target, value:
        case ast.Tuple(elts=names), ast.Tuple(elts=values) if len(names) == len(values):
            return list(zip(names, values, strict=True))
        case _:
            return [(target, value)]


def _is_dictionary(owner: ast.expr, nodes: Sequence[ast.AST]) -> bool:
    """Return whether a function makes a variable a dictionary."""
    for node in nodes:
        match node:
            case ast.Assign(targets=[target], value=value) if text(target) == text(owner):
                return _makes_dictionary(value)
            case ast.AnnAssign(target=target, value=ast.expr() as value) if text(target) == text(owner):
                return _makes_dictionary(value)
            case _:
                pass
    return False


def _makes_dictionary(value: ast.expr) -> bool:
    return isinstance(value, ast.Dict) or (isinstance(value, ast.Call) and last_name(value.func) in _DICTIONARIES)
