"""Names bound by the statements of a source file, by scope.

Source:
    Python language reference, "Naming and binding": blocks, resolution of names, class scopes.
"""

import ast
from dataclasses import dataclass, field
from typing import TypeAlias

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
ALWAYS = 0
"""Line of a binding that exists from the start of its scope: a parameter."""


@dataclass(eq=False, slots=True)
class Scope:
    """The names of a module, a class or a function.

    Attributes:
        node: the node that it belongs to.
        parent: the enclosing scope; None for a module.
        bindings: name -> lines on which it is bound.
        imports: name -> full name of the imported object.
        shared: name declared global or nonlocal -> whether it is global.
    """

    node: ast.Module | ast.ClassDef | Function
    parent: "Scope | None"
    bindings: dict[str, list[int]] = field(default_factory=dict)
    imports: dict[str, str] = field(default_factory=dict)
    shared: dict[str, bool] = field(default_factory=dict)

    @property
    def is_class(self) -> bool:
        """Return whether it is a class scope, whose names are not visible in functions inside."""
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
        """The name of a method's first parameter (self); "" if it is not an instance method."""
        node = self.node
        if self.parent is None or not self.parent.is_class or not isinstance(node, Function):
            return ""
        if any(ast.unparse(decorator) in {"staticmethod", "classmethod"} for decorator in node.decorator_list):
            return ""
        arguments = [*node.args.posonlyargs, *node.args.args]
        return arguments[0].arg if arguments else ""


class _Collector(ast.NodeVisitor):
    """Collects the names bound by the statements of a scope.

    Args:
        scope: the scope.
        scopes: receives the scopes of the definitions inside.
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
                _bind(inside, argument.arg, ALWAYS)
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
        """Visit an expression with its own scope, in which only `:=` binds names outside."""
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


def collect(tree: ast.Module, module: Scope, scopes: dict[ast.AST, Scope]) -> None:
    """Collect the names bound by the statements of a file.

    Args:
        tree: the file.
        module: its scope.
        scopes: receives the scopes of the definitions inside.
    """
    _Collector(module, scopes).generic_visit(tree)


def _bind(scope: Scope, name: str, line: int) -> None:
    scope.bindings.setdefault(name, []).append(line)


def binding_scope(name: str, scope: Scope) -> Scope | None:
    """Return the scope whose binding of a name is visible from another scope; None if there is none."""
    if name in scope.shared:
        if scope.shared[name]:
            return scope.module
        return binding_scope(name, scope.parent) if scope.parent is not None else None
    if name in scope.bindings:
        return scope
    around = scope.parent
    while around is not None:
        if name in around.bindings and not around.is_class:
            return around
        around = around.parent
    return None
