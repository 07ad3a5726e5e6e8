"""Scopes: the names visible in a function, and their values."""

import ast
from collections.abc import Callable, Iterator
from typing import TypeGuard

from syncheck.lint.interp.values import UNKNOWN, Class, Instance, Symbol, Value
from syncheck.lint.nodes import walk

COMMON = {
    "torch": "torch",
    "nn": "torch.nn",
    "F": "torch.nn.functional",
    "dist": "torch.distributed",
    "time": "time",
    "np": "numpy",
}
"""Names that modules are commonly bound to -> the module."""
_MODELED_BASES = frozenset({"torch.autograd.graph.saved_tensors_hooks"})
"""Classes of libraries whose constructors have a model."""


class Scope:
    """The names of a function or of a module.

    Attributes:
        is_lazy: names are defined when they are first looked up.
        is_imported: the names are those of another file.
        is_kept: a function that uses the names has been returned.

    Args:
        parent: the enclosing scope.
    """

    is_lazy = False
    is_imported = False
    is_kept = False

    def __init__(self, parent: "Scope | None" = None) -> None:
        self.parent = parent
        self.names: dict[str, Value] = {}
        self.shared: dict[str, Scope] = {}  # names declared global or nonlocal -> the scope that binds them

    @property
    def module(self) -> "Scope":
        """The outermost scope."""
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope

    def find(self, name: str) -> Value | None:
        """Return the value of a name; None if unknown."""
        scope: Scope | None = self.shared.get(name, self) if self.shared else self
        while scope is not None:
            found = scope.names.get(name)
            if found is not None:
                return found
            if scope.is_lazy:
                found = scope.define(name)
                if found is not None:
                    return found
            scope = scope.parent
        return None

    def define(self, name: str) -> Value | None:
        """Define a name that is not bound yet and return its value; None if nothing defines it."""
        del name
        return None

    def set(self, name: str, value: Value) -> None:
        """Bind a name."""
        self.shared.get(name, self).names[name] = value

    def delete(self, name: str) -> None:
        """Unbind a name."""
        self.shared.get(name, self).names.pop(name, None)

    def share(self, name: str, *, is_global: bool) -> None:
        """Declare a name global or nonlocal."""
        scope: Scope | None = self.module if is_global else self.parent
        while scope is not None and not is_global and name not in scope.names and scope.parent is not None:
            scope = scope.parent
        self.shared[name] = scope or self


class LazyScope(Scope):
    """The names of a module of which only one function is interpreted. Each is defined when it is first looked up.

    Args:
        definition_of: returns the statement that binds a name; None if there is none.
        run: runs a statement in this scope.
        is_imported: whether the module is another file.
    """

    is_lazy = True

    def __init__(
        self,
        definition_of: Callable[[str], ast.stmt | None],
        run: Callable[[ast.stmt, Scope], None],
        *,
        is_imported: bool = False,
    ) -> None:
        super().__init__()
        self.is_imported = is_imported
        self._definition_of = definition_of
        self._run = run
        self._busy: set[str] = set()

    def define(self, name: str) -> Value | None:
        """See `Scope.define`."""
        statement = self._definition_of(name) if name not in self._busy else None
        if statement is None:
            return None
        self._busy.add(name)
        self._run(statement, self)
        return self.names.get(name, UNKNOWN)


def full_name(node: ast.ImportFrom, name: str) -> str:
    """Return the full name of what an import statement binds: "package.name", "..module.name"."""
    module = "." * node.level + (node.module or "")
    return f"{module}{name}" if module.endswith(".") else f"{module}.{name}"


def definitions_in(body: list[ast.stmt]) -> dict[str, ast.stmt]:
    """Return the statement that binds each name of a module; the first one if there are several.

    An import of all names of another module may bind those of common modules, unless another statement does.
    """
    found: dict[str, ast.stmt] = {}
    imports: list[ast.ImportFrom] = []
    for statement in flat(body):
        if imports_all(statement):
            imports.append(statement)
        for name in _bound_by(statement):
            found.setdefault(name, statement)
    for statement in imports:
        found = dict.fromkeys(COMMON, statement) | found
    return found


def bind_imported(node: ast.Import | ast.ImportFrom, scope: Scope) -> None:
    """Bind the names that an import statement binds, each to a symbol."""
    if imports_all(node):
        for name, module in COMMON.items():
            scope.names.setdefault(name, Symbol(module))
        return
    for alias in node.names:
        if isinstance(node, ast.ImportFrom):
            scope.set(alias.asname or alias.name, Symbol(full_name(node, alias.name)))
        elif alias.asname:
            scope.set(alias.asname, Symbol(alias.name))
        else:
            first = alias.name.partition(".")[0]
            scope.set(first, Symbol(first))


def alias_of(statement: ast.ImportFrom, name: str) -> ast.alias | None:
    """Return the part of an import that binds a name; None if the import does not list it, as `import *`."""
    return next((alias for alias in statement.names if name == (alias.asname or alias.name)), None)


def imports_all(statement: ast.AST) -> TypeGuard[ast.ImportFrom]:
    """Return whether a statement imports all names of a module: `from utils import *`."""
    return isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*"


def flat(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a module, replacing `if` and `try` statements by their contents."""
    for statement in body:
        if isinstance(statement, ast.If | ast.Try):
            yield from flat(statement.body)
            yield from flat(statement.orelse)
        else:
            yield statement


def _bound_by(statement: ast.stmt) -> list[str]:
    match statement:
        case ast.Import(names=names):
            return [alias.asname or alias.name.partition(".")[0] for alias in names]
        case ast.ImportFrom(names=names):
            return [alias.asname or alias.name for alias in names]
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Assign(targets=targets):
            return [node.id for target in targets for node in walk(target) if isinstance(node, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
            return [name]
        case _:
            return []


def super_of(scope: Scope) -> Value:
    """Return the result of `super()` in a method: the same instance with a base as its class, or a library's class."""
    instance = next((value for value in scope.names.values() if isinstance(value, Instance)), None)
    if instance is None:
        return UNKNOWN
    bases = [base for base in instance.kind.bases if isinstance(base, Class)]
    known = [base for base in instance.kind.bases if isinstance(base, Symbol) and base.path in _MODELED_BASES]
    return Instance(bases[0], instance.attributes) if bases else known[0] if known else UNKNOWN
