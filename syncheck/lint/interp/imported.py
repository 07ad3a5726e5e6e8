"""Functions and classes of other files of the repository, interpreted where this file uses them."""

import ast
import re
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Protocol

from syncheck.hb.ids import NamedKind
from syncheck.lint.interp.control_flow import Raised, TooLongError
from syncheck.lint.interp.evaluator import Evaluator
from syncheck.lint.interp.exchanged import exchanged_variables
from syncheck.lint.interp.imported_calls import ImportedCall
from syncheck.lint.interp.imported_objects import ImportedObjects
from syncheck.lint.interp.scope import LazyScope, Scope, alias_of, full_name, imports_all
from syncheck.lint.interp.unknown import is_on_gpu
from syncheck.lint.interp.values import (
    UNKNOWN,
    Call,
    Class,
    Context,
    Event,
    Function,
    Generator,
    Instance,
    Mapping,
    Native,
    Sequence,
    Stream,
    Value,
)
from syncheck.lint.source_file import may_start_collectives

_WORDS = re.compile("sync|wait|barrier|join|[Ss]tream|[Ee]vent|cuda|device|time|clock|item|reduce|gather|return")
"""Words of functions that have an effect here even if they get no GPU tensor."""
_ORDERING = re.compile("sync|wait")
_RECORDED = re.compile(r"record_stream\((\w*)")
_LEFT_OUT = re.compile(r"(\w+)(?:: *[^=,()]+)? *= *None")
_ROOTS = frozenset(
    "Module Function Dataset IterableDataset Sampler Optimizer ABC Protocol Enum IntEnum Exception NamedTuple".split()
)
"""Names of common base classes that hold no stream."""
_STEPS = 300
"""Maximum number of statements to interpret per call."""
_STEPS_OF_ALL = 3000
"""Maximum number of statements to interpret in all calls on one path."""


class Module(Protocol):
    """Another file.

    Attributes:
        path: the path of the file.
    """

    path: str

    def get(self, name: str) -> ast.stmt | None:
        """Return the statement that binds a name."""
        ...

    def is_class(self, name: str) -> bool:
        """Return whether the statement that binds a name begins as a class does."""
        ...

    def source(self, name: str) -> str:
        """Return the source of the statement that binds a name; "" if unknown."""
        ...


FindFunction = Callable[[str, str], tuple[Module, str] | None]
"""Returns the file that defines a function or class, and its name in that file.

The arguments are its full name, and the path of the file that imports it; "" for the file that is interpreted.
"""


class ImportedFunctions:
    """Interprets functions of other files.

    Attributes:
        objects: the objects of classes of other files.
        n_steps: number of statements of other files that have been interpreted.

    Args:
        evaluator: interprets the program.
        find: finds the functions.
    """

    def __init__(self, evaluator: Evaluator, find: FindFunction) -> None:
        self._evaluator = evaluator
        self._machine = evaluator.machine
        self.objects = ImportedObjects(evaluator.machine)
        self._find = find
        self._scopes: dict[int, LazyScope] = {}  # id of a file's module -> its scope
        self.n_steps = 0

    def forget(self) -> None:
        """Drop the scopes of the files."""
        for scope in self._scopes.values():
            scope.names.clear()
        self._scopes.clear()

    @property
    def scopes(self) -> list[LazyScope]:
        """The scopes of the files used so far."""
        return list(self._scopes.values())

    def call(self, path: str, call: Call) -> Value | None:
        """Call a function or a class by its full name; return None if it cannot be interpreted."""
        found = self._find(path, "")
        if found is None:
            return None
        module, name = found
        if module.is_class(name):
            return self._create(module, name, call)
        if not (any(map(is_on_gpu, call.values())) or _may_do_something(module.source(name))):
            return None
        return self._within(call, lambda: self._defined(module, name))

    def _create(self, module: Module, name: str, call: Call) -> Value | None:
        """Create an object of a class of another file. A network is unknown code."""
        made = self._within(call, lambda: _unless_net(self._defined(module, name)))
        kind = module.get(name)
        if made is None and isinstance(kind, ast.ClassDef) and _ORDERING.search(module.source(name)):
            self.objects.create(kind, call)
        return made

    def orders(self, path: str, call: Call) -> bool:
        """Return whether a function orders its work or calls `record_stream`, judging by its source.

        A `record_stream` for a stream parameter that the call omits does not count.
        """
        found = self._find(path, "")
        source = found[0].source(found[1]) if found is not None else ""
        recorded = set(_RECORDED.findall(source))
        left_out = set(_LEFT_OUT.findall(source)) - call.kwargs.keys()
        return _ORDERING.search(source) is not None or not recorded <= left_out

    def call_function(self, function: Function, call: Call) -> Value | None:
        """Call a function of another file that the program obtained there; return None if it cannot be interpreted."""
        return self._within(call, lambda: function)

    def _within(self, call: Call, function_of: Callable[[], Value | None]) -> Value | None:
        """Call a function or a class, which may have to be defined first, as part of a call in this file."""
        if self._machine.imported.running is not None:
            return self._called(function_of(), call)
        machine, evaluator = self._machine, self._evaluator
        here = ImportedCall(call.node, machine.function, len(machine.calls))
        before, most = evaluator.steps_left, min(_STEPS, _STEPS_OF_ALL - self.n_steps)
        evaluator.steps_left = most
        try:
            with machine.imported.run(here), evaluator.decide_by_default():
                found = self._called(function_of(), call)
                if isinstance(found, Generator):
                    return Generator(self._steps(found, here))
                found = found and _portable(found)
        except (TooLongError, Raised):
            return None
        finally:
            self.n_steps += most - max(evaluator.steps_left, 0)
            evaluator.steps_left = before
        self._name(found, call.node)
        return found

    def _name(self, made: Value | None, node: ast.AST) -> None:
        """Give the stream or event that a call returns the name that it is bound to. Parts of an object get none."""
        if isinstance(made, Stream) and not made.origin:
            self._machine.name_new(NamedKind.STREAM, made.ident, node)
        elif isinstance(made, Event):
            self._machine.name_new(NamedKind.EVENT, made.ident, node)
        elif isinstance(made, Instance):
            self._machine.sites.note_object(node)

    def _called(self, function: Value | None, call: Call) -> Value | None:
        own = Call(call.node, list(call.args), dict(call.kwargs), call.is_complete)
        if isinstance(function, Function):
            return self._evaluator.call_function(function, own)
        return self._evaluator.call(function, own) if isinstance(function, Class) else None

    def _steps(self, generator: Generator, here: ImportedCall) -> Iterator[Value]:
        """Yield the values of a generator, whose code runs as part of a call here."""
        while True:
            with self._machine.imported.run(here), self._evaluator.decide_by_default():
                value = next(generator.values, None)
            if value is None:
                return
            yield _portable(value)

    def kind(self, path: str, node: ast.AST) -> Class | None:
        """Return a class of another file by its full name; None if unknown.

        Args:
            path: the full name.
            node: what uses it in this file: the class that derives from it, or an annotation.
        """
        if path.rpartition(".")[2] in _ROOTS:
            return None
        found = self._find(path, "")
        if found is None or not found[0].is_class(found[1]):
            return None
        machine = self._machine
        here = ImportedCall(node, machine.function, len(machine.calls))
        with machine.imported.run(here), self._evaluator.decide_by_default():
            made = self._defined(*found)
        return made if isinstance(made, Class) else None

    def _defined(self, module: Module, name: str) -> Value | None:
        scope = self._scopes.get(id(module))
        if scope is None:
            find, define = partial(_definition, module), partial(self._define, module)
            scope = self._scopes[id(module)] = LazyScope(find, define, is_imported=True)
        return scope.find(name)

    def _define(self, module: Module, statement: ast.stmt, scope: Scope) -> None:
        user = self._machine.current_node
        with self._machine.earlier.run(self._machine):
            self._evaluator.run([statement], scope)
        self._machine.current_node = user
        if isinstance(statement, ast.ClassDef) and may_start_collectives(module.source(statement.name)):
            self._machine.imported.exchanged |= exchanged_variables(ast.Module([statement], []))
        if isinstance(statement, ast.ImportFrom) and not imports_all(statement):
            alias = statement.names[0]
            found = self._find(full_name(statement, alias.name), module.path)
            value = _unless_net(self._defined(*found)) if found is not None else None
            if value is not None:
                scope.set(alias.asname or alias.name, value)


def _definition(module: Module, name: str) -> ast.stmt | None:
    """Return the statement that binds a name in another file, without the other names that an import binds."""
    statement = module.get(name)
    alias = alias_of(statement, name) if isinstance(statement, ast.ImportFrom) else None
    if not isinstance(statement, ast.ImportFrom) or alias is None:
        return statement
    return ast.copy_location(ast.ImportFrom(statement.module, [alias], statement.level), statement)


def _unless_net(value: Value | None) -> Value | None:
    return None if isinstance(value, Class) and value.is_net else value


@lru_cache(maxsize=4096)
def _may_do_something(source: str) -> bool:
    """Return whether a function may do something here although it is given no tensor on a GPU."""
    return _WORDS.search(source) is not None


def _portable(value: Value, depth: int = 4) -> Value:
    """Return a function's result without code that would run in this file."""
    if isinstance(value, Generator | Native) or (isinstance(value, Context) and not value.is_portable):
        return UNKNOWN
    if depth and isinstance(value, Sequence):
        value.items[:] = [_portable(item, depth - 1) for item in value.items]
    elif depth and isinstance(value, Mapping):
        value.items = {key: _portable(item, depth - 1) for key, item in value.items.items()}
    return value
