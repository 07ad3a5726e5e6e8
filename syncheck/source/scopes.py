"""Which names are visible at a line of a source file, and what they stand for there.

Source:
    Python language reference, "Naming and binding": blocks, resolution of names, class scopes.
"""

import ast
import builtins
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TypeAlias

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Loop: TypeAlias = ast.For | ast.AsyncFor | ast.While
_FETCHING = frozenset({"result", "get", "join"})
"""Methods that wait for a thread or an executor and give what it has made."""
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


_Statement: TypeAlias = tuple[ast.stmt, Scope, tuple[Loop, ...]]
_Found: TypeAlias = tuple[ast.stmt | None, Scope, tuple[Loop, ...]]


class Scopes:
    """The scopes of one file.

    Args:
        tree: the file.
        source: its text.
    """

    def __init__(self, tree: ast.Module, source: str) -> None:
        self._tree = tree
        self._lines = source.splitlines()
        self.module = Scope(tree, None)
        self._scopes: dict[ast.AST, Scope] = {tree: self.module}
        self._found: dict[int, _Found] = {}  # line -> what it belongs to, of those that were asked for
        _Collector(self.module, self._scopes).generic_visit(tree)

    # -- places

    @cached_property
    def _statements(self) -> list[_Statement]:
        """All statements, each with the scope that it belongs to and the loops around it."""
        return list(self._walk(self._tree.body, self.module, ()))

    def _walk(self, body: list[ast.stmt], scope: Scope, loops: tuple[Loop, ...]) -> Iterator[_Statement]:
        for statement in body:
            yield statement, scope, loops
            inside, around = self._scopes.get(statement, scope), loops
            if inside is not scope:
                around = ()
            elif isinstance(statement, Loop):
                around = (*loops, statement)
            for part in _bodies(statement):
                yield from self._walk(part, inside, around)

    def _find(self, line: int) -> _Found:
        """Return the innermost statement that a line belongs to, with its scope and the loops around it."""
        if line not in self._found:
            around = [one for one in self._statements if one[0].lineno <= line <= (one[0].end_lineno or one[0].lineno)]
            self._found[line] = around[-1] if around else (None, self.module, ())
        return self._found[line]

    def statement(self, line: int) -> ast.stmt | None:
        """Return the innermost statement that a line belongs to; None for a line between statements."""
        return self._find(line)[0]

    def is_in_loop(self, line: int) -> bool:
        """Return whether a line belongs to a loop of the function that it is in."""
        return bool(self._find(line)[2])

    def can_insert_before(self, line: int, after: Sequence[int] = ()) -> bool:
        """Return whether a statement can be put before that of a line.

        Args:
            line: a line of the file.
            after: lines whose work has to come before the new statement each time that it runs.
        """
        statement = self._find(line)[0]
        if statement is None or isinstance(statement, Function | ast.ClassDef | ast.While):
            return False
        text = self._lines[statement.lineno - 1]
        if len(text[: len(text) - len(text.lstrip())].encode()) != statement.col_offset or text.lstrip()[:4] == "elif":
            return False  # it does not begin its line
        return not any(statement.lineno <= other <= (statement.end_lineno or 0) for other in after)

    def can_insert_after(self, line: int) -> bool:
        """Return whether a statement can be put after that of a line: a simple one that ends its line."""
        statement = self._find(line)[0]
        if statement is None or statement.end_lineno is None or list(_bodies(statement)) != [[], [], []]:
            return False
        if isinstance(statement, ast.Return | ast.Raise | ast.Break | ast.Continue):
            return False
        text = self._lines[statement.end_lineno - 1].encode()[statement.end_col_offset :].decode().strip()
        return self.can_insert_before(line) and (not text or text.startswith("#"))

    def is_call_statement(self, line: int, column: int) -> bool:
        """Return whether a statement is the call at a position, so that its result is thrown away."""
        statement = self._find(line)[0]
        if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
            return False
        return (statement.lineno, statement.col_offset + 1) == (line, column)

    def owner_of_call(self, line: int, column: int, method: str) -> str:
        """Return the object of a method call, as in the source; "" if no call of that method is there.

        Args:
            line: of the call.
            column: of the call, from 1; 0 where that is not known.
            method: its name.
        """
        statement = self.statement(line)
        calls = [
            node
            for node in (ast.walk(statement) if statement is not None else ())
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == method
        ]
        exact = [call for call in calls if (call.lineno, call.col_offset + 1) == (line, column)]
        chosen = exact or (calls if len(calls) == 1 else [])
        function = chosen[0].func if chosen else None
        return ast.unparse(function.value) if isinstance(function, ast.Attribute) else ""

    # -- names

    def is_right(self, expression: str, line: int) -> bool:
        """Return whether an expression that was right at a line once is right there each time.

        Not one that picks an item by its number in a loop or in a function: the next time may need another.
        """
        if not self.is_visible(expression, line):
            return False
        _, scope, loops = self._find(line)
        is_once = not loops and scope is self.module
        return is_once or not _has_index(expression) or self.is_spoken(expression, line)

    def is_spoken(self, expression: str, line: int, *, is_bound: bool = True) -> bool:
        """Return whether the statement of a line has an expression in it, also where it binds it, if `is_bound`."""
        wanted = _normal(expression)
        found = (node for node in self._expressions(line) if ast.unparse(node) == wanted)
        return any(is_bound or not isinstance(getattr(node, "ctx", None), ast.Store | ast.Del) for node in found)

    def is_bound_once(self, name: str, line: int) -> bool:
        """Return whether a variable of a line is bound by one statement only."""
        return (owner := _binding_scope(name, self._find(line)[1])) is not None and len(owner.bindings[name]) == 1

    def waits_for_others(self, line: int) -> bool:
        """Return whether the statement of a line waits for what a thread or an executor makes."""
        calls = (node.func for node in self._expressions(line) if isinstance(node, ast.Call))
        return any(isinstance(function, ast.Attribute) and function.attr in _FETCHING for function in calls)

    def _expressions(self, line: int) -> Iterator[ast.expr]:
        statement = self._find(line)[0]
        waiting: list[ast.AST] = [] if statement is None else [statement]
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.expr):
                yield node
            waiting += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]

    def is_visible(self, expression: str, line: int) -> bool:
        """Return whether every name of an expression is bound at the beginning of a line's statement."""
        return all(self._is_bound(name, line) for name in _names_in(expression))

    def means_the_same(self, expression: str, line: int, other: int) -> bool:
        """Return whether an expression that is right at one line is right at another: its names are the same variables.

        The object of a method is taken to be the same in all methods of its class.
        """
        if line == other or _has_index(expression):
            return self.is_right(expression, other) and (line == other or self._is_same(expression, line, other))
        return self._is_same(expression, line, other)

    def _is_same(self, expression: str, line: int, other: int) -> bool:
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
        return Scopes(ast.parse(source), source)
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
def _normal(expression: str) -> str:
    """Return an expression as `ast.unparse` writes it."""
    try:
        return ast.unparse(ast.parse(expression, mode="eval"))
    except SyntaxError:
        return ""


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
    return re.search(r"\[(\d+|\.\.\.)\]", expression) is not None
