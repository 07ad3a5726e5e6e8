"""Names that are visible on a line of a source file, and their meaning there.

Source:
    Python language reference, "Naming and binding": blocks, resolution of names, class scopes.
"""

import ast
import builtins
from collections.abc import Container, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import TypeAlias

from syncheck.source.assignment import are_attributes_set, is_certainly_bound
from syncheck.source.bindings import ALWAYS, Function, Scope, binding_scope, collect
from syncheck.source.expressions import (
    arguments_of,
    bodies,
    calls_in,
    container_kind,
    expressions_of,
    has_index,
    has_line,
    is_at,
    last_name,
    manager_around,
    names_in,
    normalized,
    parsed,
    subscripts_in,
    subscripts_of,
)
from syncheck.source.none_values import NoneValues
from syncheck.source.rebinding import is_bound_between, is_bound_in_loop, is_loop_variable_outside, reads
from syncheck.source.text import parse_module

Loop: TypeAlias = ast.For | ast.AsyncFor | ast.While
_FETCHING = frozenset({"result", "get", "join"})
"""Methods that wait for a thread or an executor and return its result."""
_REMOVING = frozenset({"pop", "popitem", "popleft", "clear"})
"""Methods that remove items from a container."""
_Statement: TypeAlias = tuple[ast.stmt, Scope, tuple[Loop, ...]]
_Found: TypeAlias = tuple[ast.stmt | None, Scope, tuple[Loop, ...]]


class Scopes:
    """The scopes of one file.

    Args:
        tree: the file.
        source: its text.
    """

    def __init__(self, tree: ast.Module, source: str) -> None:
        self.tree = tree
        self._lines = source.splitlines()
        self.module = Scope(tree, None)
        self._scopes: dict[ast.AST, Scope] = {tree: self.module}
        self._found: dict[int, _Found] = {}  # line -> cached result of `_find`
        collect(tree, self.module, self._scopes)

    # -- places

    @cached_property
    def _statements(self) -> list[_Statement]:
        """All statements, each with its scope and enclosing loops."""
        return list(self._walk(self.tree.body, self.module, ()))

    def _walk(self, body: list[ast.stmt], scope: Scope, loops: tuple[Loop, ...]) -> Iterator[_Statement]:
        for statement in body:
            yield statement, scope, loops
            inside, around = self._scopes.get(statement, scope), loops
            if inside is not scope:
                around = ()
            elif isinstance(statement, Loop):
                around = (*loops, statement)
            for part in bodies(statement):
                yield from self._walk(part, inside, around)

    def _find(self, line: int) -> _Found:
        """Return the innermost statement that contains a line, with its scope and enclosing loops."""
        if line not in self._found:
            around = [one for one in self._statements if has_line(one[0], line)]
            self._found[line] = around[-1] if around else (None, self.module, ())
        return self._found[line]

    def statement(self, line: int) -> ast.stmt | None:
        """Return the innermost statement that contains a line; None for a line between statements."""
        return self._find(line)[0]

    def own_statements(self, line: int) -> list[ast.stmt]:
        """Return the statements of a line's own function, or of the module outside of functions."""
        scope = self._find(line)[1]
        return [statement for statement, around, _ in self._statements if around is scope]

    def subscripts_around(self, line: int) -> list[ast.Subscript]:
        """Return the subscript expressions of a line's own function, or of the module outside of functions."""
        nodes = (node for own in self.own_statements(line) for node in expressions_of(own))
        return [node for node in nodes if isinstance(node, ast.Subscript)]

    def is_in_loop(self, line: int) -> bool:
        """Return whether a line is inside a loop of its own function."""
        return bool(self._find(line)[2])

    def can_insert_before(self, line: int, after: Sequence[int] = ()) -> bool:
        """Return whether a statement can be inserted before a line's statement.

        Args:
            line: a line of the file.
            after: lines whose work must precede the new statement each time it runs.
        """
        statement = self._find(line)[0]
        if statement is None or isinstance(statement, Function | ast.ClassDef | ast.While):
            return False
        text = self._lines[statement.lineno - 1]
        if len(text[: len(text) - len(text.lstrip())].encode()) != statement.col_offset or text.lstrip()[:4] == "elif":
            return False  # not at the start of its line
        return not any(has_line(statement, other) for other in after)

    def can_insert_after(self, line: int) -> bool:
        """Return whether a statement can be inserted after a line's statement: a simple one at the end of its line."""
        statement = self._find(line)[0]
        if statement is None or statement.end_lineno is None or list(bodies(statement)) != [[], [], []]:
            return False
        if isinstance(statement, ast.Return | ast.Raise | ast.Break | ast.Continue):
            return False
        text = self._lines[statement.end_lineno - 1].encode()[statement.end_col_offset :].decode().strip()
        return self.can_insert_before(line) and (not text or text.startswith("#"))

    def kind_of_container(self, expression: str) -> str:
        """Return the kind of an expression's first value in the file: "dict", "list"; "" for others."""
        for statement, _, _ in self._statements:
            targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
            value = getattr(statement, "value", None)
            if value is not None and expression in [ast.unparse(target) for target in targets if target is not None]:
                return container_kind(value)
        return ""

    def is_whole_value(self, start: tuple[int, int], end: tuple[int, int]) -> bool:
        """Return whether an expression, given by (line, column) of start and end, is its statement's whole value."""
        value = getattr(self.statement(start[0]), "value", None)
        if not isinstance(value, ast.expr):
            return False
        first, last = (value.lineno, value.col_offset + 1), (value.end_lineno, (value.end_col_offset or 0) + 1)
        return (first, last) == (start, end)

    def is_argument(self, line: int, column: int) -> bool:
        """Return whether the expression at a position is part of an argument of a call."""
        calls = [node for node in self._expressions(line) if isinstance(node, ast.Call)]
        parts = (part for call in calls for passed in arguments_of(call) for part in ast.walk(passed))
        return any(isinstance(part, ast.expr) and is_at(part, line, column) for part in parts)

    def is_call_statement(self, line: int, column: int) -> bool:
        """Return whether the call at a position is a statement by itself, so that its result is discarded."""
        statement = self._find(line)[0]
        return (
            isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) and is_at(statement, line, column)
        )

    def manager_around(self, line: int, functions: Container[str]) -> ast.withitem | None:
        """Return the innermost `function(...)` of a `with` statement that contains a line; None if there is none."""
        return manager_around((node for node, _, _ in self._statements), line, functions)

    def owner_of_call(self, line: int, column: int, method: str) -> str:
        """Return the source text of a method call's object; "" if there is no such call.

        Args:
            line: line of the call.
            column: column of the call, from 1; 0 if unknown.
            method: name of the method.
        """
        found = calls_in(self.statement(line))
        calls = [call for call in found if isinstance(call.func, ast.Attribute) and call.func.attr == method]
        exact = [call for call in calls if is_at(call, line, column)]
        chosen = exact or (calls if len(calls) == 1 else [])
        function = chosen[0].func if chosen else None
        return ast.unparse(function.value) if isinstance(function, ast.Attribute) else ""

    # -- names

    def is_always_valid(self, expression: str, line: int) -> bool:
        """Return whether an expression that was once valid on a line is valid there every time.

        An expression with a numeric index in a loop or function usually is not: the next time may need another item.
        Neither is an item of a container whose items are added and removed.
        """
        if not self.is_visible(expression, line):
            return False
        _, scope, loops = self._find(line)
        is_once = not loops and scope is self.module
        if is_once or self.is_mentioned(expression, line):
            return True
        if any(self._changes_items(item, loops) for item in subscripts_in(expression)):
            return False
        return not has_index(expression) or self._indexes_only_by_constants(
            expression, loops[-1] if loops else scope.node
        )

    def _changes_items(self, item: ast.Subscript, loops: tuple[Loop, ...]) -> bool:
        """Return whether the container of an item loses items, or gains them in a function or in one of the loops.

        Items that `__init__` adds exist from the start. So do items that the file itself looks up by their key.
        """
        name = last_name(item.value)
        if any(
            last_name(node.value) == name and ast.dump(node.slice) == ast.dump(item.slice)
            for node in self._constant_subscripts
        ):
            return False
        return name in self._shrinking_containers or any(
            scope is not self.module or any(has_line(loop, number) for loop in loops)
            for number, scope in self._item_assignments.get(name, ())
            if getattr(scope.node, "name", "") != "__init__"
        )

    @cached_property
    def _constant_subscripts(self) -> list[ast.Subscript]:
        """All subscripts of the file with a constant index or key."""
        return [node for node in subscripts_of(self.tree) if isinstance(node.slice, ast.Constant)]

    @cached_property
    def _shrinking_containers(self) -> frozenset[str]:
        """The names of containers from which the file removes items."""
        calls = [call.func for call in calls_in(self.tree)]
        shrunk = [call.value for call in calls if isinstance(call, ast.Attribute) and call.attr in _REMOVING]
        shrunk += [item.value for item in subscripts_of(self.tree) if isinstance(item.ctx, ast.Del)]
        return frozenset(map(last_name, shrunk)) - {""}

    @cached_property
    def _item_assignments(self) -> dict[str, list[tuple[int, Scope]]]:
        """Name of a container -> lines and scopes of the statements that set an item of it by a variable key."""
        found: dict[str, list[tuple[int, Scope]]] = {}
        for statement, scope, _ in self._statements:
            for target in getattr(statement, "targets", ()):
                if isinstance(target, ast.Subscript) and not isinstance(target.slice, ast.Constant):
                    found.setdefault(last_name(target.value), []).append((statement.lineno, scope))
        return found

    def _indexes_only_by_constants(self, expression: str, around: ast.AST) -> bool:
        """Return whether a loop or function uses an expression's items, indexing their containers only by constants."""
        subscripts = subscripts_of(around)
        for item in subscripts_in(expression):
            same_container = [node for node in subscripts if ast.unparse(node.value) == ast.unparse(item.value)]
            are_constant = all(isinstance(node.slice, ast.Constant) for node in same_container)
            if not are_constant or ast.unparse(item) not in map(ast.unparse, same_container):
                return False
        return True

    def is_mentioned(self, expression: str, line: int, *, is_bound: bool = True) -> bool:
        """Return whether a line's statement contains an expression; bindings and deletions count only if `is_bound`."""
        wanted = normalized(expression)
        found = (node for node in self._expressions(line) if ast.unparse(node) == wanted)
        return any(is_bound or not isinstance(getattr(node, "ctx", None), ast.Store | ast.Del) for node in found)

    def is_bound_once(self, name: str, line: int) -> bool:
        """Return whether a variable visible on a line is bound exactly once."""
        return (owner := binding_scope(name, self._find(line)[1])) is not None and len(owner.bindings[name]) == 1

    def is_rebound(self, expression: str, line: int) -> bool:
        """Return whether a loop around a line rebinds a name in an expression, which changes its meaning."""
        _, scope, loops = self._find(line)
        numbers = [number for name in names_in(expression) for number in scope.bindings.get(name, ())]
        return any(has_line(loop, number) for loop in loops for number in numbers)

    def uses_local_variable(self, expression: str, line: int) -> bool:
        """Return whether an expression uses a local variable of a line's function, which differs between calls."""
        scope = self._find(line)[1]
        names = names_in(expression) - {scope.first_parameter} if isinstance(scope.node, Function) else ()
        return any(binding_scope(name, scope) is scope for name in names)

    def waits_for_thread(self, line: int) -> bool:
        """Return whether a line's statement waits for the result of a thread or an executor."""
        calls = (node.func for node in self._expressions(line) if isinstance(node, ast.Call))
        return any(isinstance(function, ast.Attribute) and function.attr in _FETCHING for function in calls)

    def _expressions(self, line: int) -> Iterator[ast.expr]:
        return expressions_of(self._find(line)[0])

    def is_visible(self, expression: str, line: int) -> bool:
        """Return whether every name in an expression is bound, and every attribute of `self` set, before a line."""
        return all(self._is_bound(name, line) for name in names_in(expression)) and self._is_set(expression, line)

    def _is_set(self, expression: str, line: int) -> bool:
        """Return whether the attributes of `self` in an expression are set before a line."""
        statement, scope, _ = self._find(line)
        kind, method = scope.parent and scope.parent.node, scope.node
        if statement is None or not isinstance(kind, ast.ClassDef) or not isinstance(method, Function):
            return True
        own = scope.first_parameter
        return not own or are_attributes_set(expression, own, kind, method, statement)

    def has_same_meaning(self, expression: str, line: int, other: int) -> bool:
        """Return whether an expression valid on one line means the same on another, with the same variables.

        `self` is assumed to be the same object in all methods of a class. Another function may run in another thread,
        where the attributes of a `threading.local` are different ones.
        """
        if self._find(line)[1] is not self._find(other)[1] and expression.startswith(self._thread_locals):
            return False
        if (line == other or subscripts_in(expression)) and not self.is_always_valid(expression, other):
            return False
        return line == other or self._is_same(expression, line, other)

    @cached_property
    def _thread_locals(self) -> tuple[str, ...]:
        """The beginnings of expressions for attributes of a `threading.local`, such as "state."."""
        assignments = [node for node, _, _ in self._statements if isinstance(node, ast.Assign)]
        local = [
            node for node in assignments if isinstance(node.value, ast.Call) and last_name(node.value.func) == "local"
        ]
        return tuple(f"{ast.unparse(target)}." for node in local for target in node.targets)

    def _is_same(self, expression: str, line: int, other: int) -> bool:
        are_same = all(self._is_same_variable(name, line, other) for name in names_in(expression))
        return are_same and self._is_set(expression, other)

    def _is_same_variable(self, name: str, line: int, other: int) -> bool:
        one, two = self._find(line)[1], self._find(other)[1]
        if one is not two and name == one.first_parameter == two.first_parameter:
            return one.parent is two.parent and self._is_bound(name, other)
        first, second = binding_scope(name, one), binding_scope(name, two)
        if first is None or first is not second or (one is first is two and self._is_bound_between(name, line, other)):
            return False
        return self._is_bound(name, other)

    def _is_bound_between(self, name: str, line: int, other: int) -> bool:
        """Return whether a name may be bound again between two lines of its scope."""
        scope = self._find(line)[1]
        return is_bound_between(range(line + 1, other), scope.bindings[name], self._own(scope))

    def _is_bound(self, name: str, line: int) -> bool:
        statement, scope, _ = self._find(line)
        owner = binding_scope(name, scope)
        if owner is None:
            return hasattr(builtins, name)
        is_left_over = is_loop_variable_outside(name, owner.bindings[name], self._own(owner), line)
        if is_left_over and not self.is_mentioned(name, line, is_bound=False):
            return False
        if owner is not scope:  # an enclosing scope, which has usually run on by the time this one runs
            return not is_bound_in_loop(owner.bindings[name], self._own(owner)) or reads(name, scope.node)
        if statement is None:
            return True
        is_parameter = ALWAYS in owner.bindings[name]
        return is_certainly_bound(name, owner.node.body, statement, initially=is_parameter)

    def _own(self, scope: Scope) -> list[ast.stmt]:
        """Return the statements of a scope, without those of the functions and classes in it."""
        return [statement for statement, owner, _ in self._statements if owner is scope]

    # -- None, and branches

    def may_be_none(self, expression: str, line: int) -> bool:
        """Return whether an expression may be None on a line, unless a condition around the line tests it."""
        node = parsed(expression)
        if node is None or any(expression in ast.unparse(test) for test, _ in self._branches(line)):
            return False
        return self._none_values.includes(node, line, self._find(line)[1])

    @cached_property
    def _none_values(self) -> NoneValues:
        return NoneValues(self.tree)

    def shares_conditions(self, line: int, other: int) -> bool:
        """Return whether the conditions under which a line runs also hold on another line."""
        there = {(ast.unparse(test), is_body) for test, is_body in self._branches(other)}
        return all((ast.unparse(test), is_body) in there for test, is_body in self._branches(line))

    def _branches(self, line: int) -> list[tuple[ast.expr, bool]]:
        """Return the conditions of the branches around a line, each with whether it is true there."""
        found: list[tuple[ast.expr, bool]] = []
        for statement, _, _ in self._statements:
            if isinstance(statement, ast.If) and statement.body[0].lineno <= line <= (statement.end_lineno or line):
                found.append((statement.test, line <= (statement.body[-1].end_lineno or line)))
        return found

    def name_of_import(self, module: str, line: int) -> str:
        """Return a module's name on a line: "torch", or "th"; "" if it is not imported there."""
        scope: Scope | None = self._find(line)[1]
        while scope is not None:
            for name, imported in scope.imports.items():
                if imported == module and self._is_bound(name, line):
                    return name
            scope = scope.parent
        return ""


@lru_cache(maxsize=64)
def scopes_of(source: str) -> Scopes | None:
    """Return the scopes of a source text; None if it is not valid Python."""
    try:
        return Scopes(parse_module(source), source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
