"""Which names are visible at a line of a source file, and what they stand for there.

Source:
    Python language reference, "Naming and binding": blocks, resolution of names, class scopes.
"""

import ast
import builtins
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TypeAlias

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Loop: TypeAlias = ast.For | ast.AsyncFor | ast.While
_ALWAYS = 0
"""The line of a binding that is there from the beginning of its scope: a parameter."""


@dataclass(eq=False, slots=True)
class Scope:
    """The names of a module, a class or a function.

    Attributes:
        node: what it belongs to.
        parent: the scope around it; None for a module.
        bindings: name -> lines at which it is bound.
        imports: name -> the full name of what is imported.
        shared: names that are declared global or nonlocal -> whether global.
    """

    node: ast.Module | ast.ClassDef | Function
    parent: "Scope | None"
    bindings: dict[str, list[int]] = field(default_factory=dict)
    imports: dict[str, str] = field(default_factory=dict)
    shared: dict[str, bool] = field(default_factory=dict)

    @property
    def is_class(self) -> bool:
        """Return whether it is that of a class: functions inside do not see its names."""
        return isinstance(self.node, ast.ClassDef)

    @property
    def module(self) -> "Scope":
        """The outermost scope."""
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope

    @property
    def first_parameter(self) -> str:
        """The name of a method's object; "" for what is no method."""
        node = self.node
        if self.parent is None or not self.parent.is_class or not isinstance(node, Function):
            return ""
        if any(ast.unparse(decorator) in {"staticmethod", "classmethod"} for decorator in node.decorator_list):
            return ""
        arguments = [*node.args.posonlyargs, *node.args.args]
        return arguments[0].arg if arguments else ""


class _Collector(ast.NodeVisitor):
    """Enters what the statements of a scope bind.

    Args:
        scope: the scope.
        scopes: gets the scopes of the definitions inside.
    """

    def __init__(self, scope: Scope, scopes: dict[ast.AST, Scope]) -> None:
        self._scope = scope
        self._scopes = scopes

    def _visit_function(self, node: Function) -> None:
        _bind(self._scope, node.name, node.lineno)
        inside = self._scopes[node] = Scope(node, self._scope)
        for part in (*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(part)
        for argument in ast.walk(node.args):
            if isinstance(argument, ast.arg):
                _bind(inside, argument.arg, _ALWAYS)
        _visit_all(_Collector(inside, self._scopes), node.body)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._visit_function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._visit_function(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        _bind(self._scope, node.name, node.lineno)
        inside = self._scopes[node] = Scope(node, self._scope)
        for part in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(part)
        _visit_all(_Collector(inside, self._scopes), node.body)

    def _visit_inner(self, node: ast.AST) -> None:
        """Visit an expression with a scope of its own: only `:=` binds outside of it."""
        for inner in ast.walk(node):
            if isinstance(inner, ast.NamedExpr):
                _bind(self._scope, inner.target.id, inner.lineno)

    visit_Lambda = visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _visit_inner

    def visit_Global(self, node: ast.Global) -> None:
        self._scope.shared |= dict.fromkeys(node.names, True)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        self._scope.shared |= dict.fromkeys(node.names, False)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            _bind(self._scope, name, node.lineno)
            self._scope.imports[name] = alias.name if alias.asname else name

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            name = alias.asname or alias.name
            _bind(self._scope, name, node.lineno)
            self._scope.imports[name] = f"{node.module or ''}.{alias.name}"

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store):
            _bind(self._scope, node.id, node.lineno)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        self._bind_part(node, node.name)

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        self._bind_part(node, node.name)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        self._bind_part(node, node.name)

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        self._bind_part(node, node.rest)

    def _bind_part(self, node: ast.ExceptHandler | ast.pattern, name: str | None) -> None:
        if name is not None:
            _bind(self._scope, name, node.lineno)
        self.generic_visit(node)


def _visit_all(visitor: ast.NodeVisitor, body: list[ast.stmt]) -> None:
    for statement in body:
        visitor.visit(statement)


class Scopes:
    """The scopes of one file."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self.module = Scope(tree, None)
        self._scopes: dict[ast.AST, Scope] = {tree: self.module}
        _Collector(self.module, self._scopes).generic_visit(tree)

    # -- places

    @cached_property
    def _statements(self) -> list[tuple[ast.stmt, Scope, tuple[Loop, ...]]]:
        """All statements, each with the scope that it belongs to and the loops around it."""
        return list(self._walk(self._tree.body, self.module, ()))

    def _walk(
        self, body: list[ast.stmt], scope: Scope, loops: tuple[Loop, ...]
    ) -> Iterator[tuple[ast.stmt, Scope, tuple[Loop, ...]]]:
        for statement in body:
            yield statement, scope, loops
            inside, around = self._scopes.get(statement, scope), loops
            if inside is not scope:
                around = ()
            elif isinstance(statement, Loop):
                around = (*loops, statement)
            for part in _bodies(statement):
                yield from self._walk(part, inside, around)

    def _find(self, line: int) -> tuple[ast.stmt | None, Scope, tuple[Loop, ...]]:
        """Return the innermost statement that a line belongs to, with its scope and the loops around it."""
        found: tuple[ast.stmt | None, Scope, tuple[Loop, ...]] = (None, self.module, ())
        for statement, scope, loops in self._statements:
            if statement.lineno <= line <= (statement.end_lineno or statement.lineno):
                found = (statement, scope, loops)
        return found

    def statement(self, line: int) -> ast.stmt | None:
        """Return the innermost statement that a line belongs to; None for a line between statements."""
        return self._find(line)[0]

    def is_in_loop(self, line: int) -> bool:
        """Return whether a line belongs to a loop of the function that it is in."""
        return bool(self._find(line)[2])

    # -- names

    def is_visible(self, expression: str, line: int) -> bool:
        """Return whether every name of an expression is bound at the beginning of a line's statement."""
        return all(self._is_bound(name, line) for name in _names_in(expression))

    def means_the_same(self, expression: str, line: int, other: int) -> bool:
        """Return whether an expression that is right at one line is right at another: its names are the same variables.

        The object of a method is taken to be the same in all methods of its class. A number that picks an item is taken
        to be another one in another iteration of a loop.
        """
        if line == other:
            return self.is_visible(expression, other)
        if _has_index(expression) and (self.is_in_loop(line) or self.is_in_loop(other)):
            return False
        return all(self._is_same_variable(name, line, other) for name in _names_in(expression))

    def _is_same_variable(self, name: str, line: int, other: int) -> bool:
        one, two = self._find(line)[1], self._find(other)[1]
        if one is not two and name == one.first_parameter == two.first_parameter:
            return one.parent is two.parent and self._is_bound(name, other)
        first, second = _binding_scope(name, one), _binding_scope(name, two)
        return first is not None and first is second and self._is_bound(name, other)

    def _is_bound(self, name: str, line: int) -> bool:
        statement, scope, loops = self._find(line)
        owner = _binding_scope(name, scope)
        if owner is None:
            return hasattr(builtins, name)
        if owner is not scope:
            return True  # of a scope around it, which has run on by the time that this one runs
        first = statement.lineno if statement is not None else line
        return any(
            bound < first or any(loop.lineno <= bound <= (loop.end_lineno or bound) for loop in loops)
            for bound in owner.bindings.get(name, ())
        )

    def name_of_import(self, module: str, line: int) -> str:
        """Return what a module is called at a line: "torch", or "th"; "" if it is not imported there."""
        scope: Scope | None = self._find(line)[1]
        while scope is not None:
            for name, imported in scope.imports.items():
                if imported == module and self._is_bound(name, line):
                    return name
            scope = scope.parent
        return ""


@lru_cache(maxsize=64)
def scopes_of(source: str) -> Scopes | None:
    """Return the scopes of a file's text; None if it is no Python."""
    try:
        return Scopes(ast.parse(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _bind(scope: Scope, name: str, line: int) -> None:
    scope.bindings.setdefault(name, []).append(line)


def _bodies(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """Yield the lists of statements inside a statement."""
    for name in ("body", "orelse", "finalbody"):
        yield getattr(statement, name, None) or []
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield part.body


def _binding_scope(name: str, scope: Scope) -> Scope | None:
    """Return the scope that binds a name as it is seen from another; None if none does."""
    if name in scope.shared:
        if scope.shared[name]:
            return scope.module
        return _binding_scope(name, scope.parent) if scope.parent is not None else None
    if name in scope.bindings:
        return scope
    around = scope.parent
    while around is not None:
        if name in around.bindings and not around.is_class:
            return around
        around = around.parent
    return None


@lru_cache(maxsize=4096)
def _names_in(expression: str) -> frozenset[str]:
    """Return the names that an expression uses."""
    try:
        tree = ast.parse(expression, mode="eval")
    except SyntaxError:
        return frozenset({""})  # which is bound nowhere
    return frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))


def _has_index(expression: str) -> bool:
    """Return whether an expression picks an item by a number."""
    try:
        tree = ast.parse(expression, mode="eval")
    except SyntaxError:
        return False
    return any(isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) for node in ast.walk(tree))
