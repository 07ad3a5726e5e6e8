"""Which names are visible at a line of a source file, and what they stand for there.

Source:
    Python language reference, "Naming and binding": blocks, resolution of names, class scopes.
"""

import ast
import builtins
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from typing import TypeAlias

from syncheck.source.bindings import Function, Scope, binding_scope, collect
from syncheck.source.expressions import has_index, items_in, kind_of_display, names_in, normal

Loop: TypeAlias = ast.For | ast.AsyncFor | ast.While
_FETCHING = frozenset({"result", "get", "join"})
"""Methods that wait for a thread or an executor and give what it has made."""
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
        collect(tree, self.module, self._scopes)

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

    def kind_of_container(self, expression: str) -> str:
        """Return what the file binds an expression to first: "dict", "list"; "" if it is not one of these."""
        for statement, _, _ in self._statements:
            targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
            value = getattr(statement, "value", None)
            if value is not None and any(
                target is not None and ast.unparse(target) == expression for target in targets
            ):
                return kind_of_display(value)
        return ""

    def is_whole_value(self, start: tuple[int, int], end: tuple[int, int]) -> bool:
        """Return whether an expression, from one (line, column) to another, is all that its statement assigns."""
        value = getattr(self.statement(start[0]), "value", None)
        if not isinstance(value, ast.expr):
            return False
        first, last = (value.lineno, value.col_offset + 1), (value.end_lineno, (value.end_col_offset or 0) + 1)
        return (first, last) == (start, end)

    def is_argument(self, line: int, column: int) -> bool:
        """Return whether what is at a position is an argument of a call."""
        calls = [node for node in self._expressions(line) if isinstance(node, ast.Call)]
        given = (argument for call in calls for argument in (*call.args, *(word.value for word in call.keywords)))
        return any(
            (node.lineno, node.col_offset + 1) == (line, column)
            for argument in given
            for node in ast.walk(argument)
            if isinstance(node, ast.expr)
        )

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
        if is_once or not has_index(expression) or self.is_spoken(expression, line):
            return True
        return self._picks_by_number(expression, loops[-1] if loops else scope.node)

    def _picks_by_number(self, expression: str, around: ast.AST) -> bool:
        """Return whether a loop or a function has the items of an expression, and picks all of their containers so."""
        picked = [node for node in ast.walk(around) if isinstance(node, ast.Subscript)]
        for item in items_in(expression):
            alike = [node for node in picked if ast.unparse(node.value) == ast.unparse(item.value)]
            if not all(isinstance(node.slice, ast.Constant) for node in alike):
                return False
            if ast.unparse(item) not in map(ast.unparse, alike):
                return False
        return True

    def is_spoken(self, expression: str, line: int, *, is_bound: bool = True) -> bool:
        """Return whether the statement of a line has an expression in it, also where it binds it, if `is_bound`."""
        wanted = normal(expression)
        found = (node for node in self._expressions(line) if ast.unparse(node) == wanted)
        return any(is_bound or not isinstance(getattr(node, "ctx", None), ast.Store | ast.Del) for node in found)

    def is_bound_once(self, name: str, line: int) -> bool:
        """Return whether a variable of a line is bound by one statement only."""
        return (owner := binding_scope(name, self._find(line)[1])) is not None and len(owner.bindings[name]) == 1

    def is_rebound(self, expression: str, line: int) -> bool:
        """Return whether a loop around a line binds a name of an expression, and with it what that means."""
        _, scope, loops = self._find(line)
        numbers = [number for name in names_in(expression) for number in scope.bindings.get(name, ())]
        return any(loop.lineno <= number <= (loop.end_lineno or number) for loop in loops for number in numbers)

    def is_of_this_call(self, expression: str, line: int) -> bool:
        """Return whether an expression has a variable of the function of a line, which each call has for itself."""
        scope = self._find(line)[1]
        if not isinstance(scope.node, Function):
            return False
        names = names_in(expression) - {scope.first_parameter}
        return any(binding_scope(name, scope) is scope for name in names)

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
        return all(self._is_bound(name, line) for name in names_in(expression))

    def means_the_same(self, expression: str, line: int, other: int) -> bool:
        """Return whether an expression that is right at one line is right at another: its names are the same variables.

        The object of a method is taken to be the same in all methods of its class.
        """
        if line == other or has_index(expression):
            return self.is_right(expression, other) and (line == other or self._is_same(expression, line, other))
        return self._is_same(expression, line, other)

    def _is_same(self, expression: str, line: int, other: int) -> bool:
        return all(self._is_same_variable(name, line, other) for name in names_in(expression))

    def _is_same_variable(self, name: str, line: int, other: int) -> bool:
        one, two = self._find(line)[1], self._find(other)[1]
        if one is not two and name == one.first_parameter == two.first_parameter:
            return one.parent is two.parent and self._is_bound(name, other)
        first, second = binding_scope(name, one), binding_scope(name, two)
        return first is not None and first is second and self._is_bound(name, other)

    def _is_bound(self, name: str, line: int) -> bool:
        statement, scope, loops = self._find(line)
        owner = binding_scope(name, scope)
        if owner is None:
            return hasattr(builtins, name)
        if self._is_left_over(name, owner, line) and not self.is_spoken(name, line, is_bound=False):
            return False
        if owner is not scope:
            return True  # of a scope around it, which has run on by the time that this one runs
        first = statement.lineno if statement is not None else line
        return any(
            bound < first or any(loop.lineno <= bound <= (loop.end_lineno or bound) for loop in loops)
            for bound in owner.bindings.get(name, ())
        )

    def _is_left_over(self, name: str, owner: Scope, line: int) -> bool:
        """Return whether a line comes after the loops whose variable a name is: it has that of the last iteration."""
        loops = [loop for loop in self._loops if loop[1] is owner and name in _targets(loop[0])]
        is_inside = any(loop.lineno <= line <= (loop.end_lineno or 0) for loop, _ in loops)
        return bool(loops) and len(loops) == len(owner.bindings[name]) and not is_inside

    @cached_property
    def _loops(self) -> list[tuple[ast.For | ast.AsyncFor, Scope]]:
        """All loops over something, each with the scope that it belongs to."""
        return [(node, scope) for node, scope, _ in self._statements if isinstance(node, ast.For | ast.AsyncFor)]

    # -- None, and branches

    def may_be_none(self, expression: str, line: int) -> bool:
        """Return whether a variable or an attribute may be None at a line, where no branch asks for it.

        Of a variable, what its function sets counts; of an attribute, what the file sets one of its name to.
        """
        node = _expression(expression)
        if node is None or any(expression in ast.unparse(test) for test, _ in self._branches(line)):
            return False
        return self._may_be_none(node, line)

    def _may_be_none(self, node: ast.expr, line: int, *, is_direct: bool = True) -> bool:
        if isinstance(node, ast.Attribute):
            return node.attr in self._none_attributes
        scope = self._find(line)[1]
        if not isinstance(node, ast.Name) or node.id not in scope.bindings:
            return False
        values = [value for name, value in _assigned(scope.node) if isinstance(name, ast.Name) and name.id == node.id]
        return any(
            _has_none(value) or (is_direct and self._may_be_none(value, line, is_direct=False)) for value in values
        )

    @cached_property
    def _none_attributes(self) -> frozenset[str]:
        """The names of attributes that the file sets to None somewhere."""
        assigned = _assigned(self._tree)
        return frozenset(to.attr for to, value in assigned if isinstance(to, ast.Attribute) and _has_none(value))

    def is_run_before(self, line: int, other: int) -> bool:
        """Return whether another line is in the branches that a line is in, or in others with the same conditions."""
        there = {(ast.unparse(test), is_body) for test, is_body in self._branches(other)}
        return all((ast.unparse(test), is_body) in there for test, is_body in self._branches(line))

    def _branches(self, line: int) -> list[tuple[ast.expr, bool]]:
        """Return the conditions of the branches around a line, each with whether it holds there."""
        found: list[tuple[ast.expr, bool]] = []
        for statement, _, _ in self._statements:
            if isinstance(statement, ast.If) and statement.body[0].lineno <= line <= (statement.end_lineno or line):
                found.append((statement.test, line <= (statement.body[-1].end_lineno or line)))
        return found

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


def _expression(text: str) -> ast.expr | None:
    """Return an expression; None for a text that is none."""
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError:
        return None


def _assigned(node: ast.AST) -> list[tuple[ast.expr, ast.expr]]:
    """Return the targets of all assignments in a node, each with its value; those of tuples one by one."""
    found: list[tuple[ast.expr, ast.expr]] = []
    for statement in ast.walk(node):
        if isinstance(statement, ast.AnnAssign) and statement.value is not None:
            found.append((statement.target, statement.value))
        for target in statement.targets if isinstance(statement, ast.Assign) else ():
            value = statement.value  # type: ignore[attr-defined]  # it is an assignment
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
                found += zip(target.elts, value.elts, strict=True)
            else:
                found.append((target, value))
    return found


def _has_none(value: ast.expr) -> bool:
    """Return whether an expression is None, or is None in one case."""
    if isinstance(value, ast.IfExp):
        return _has_none(value.body) or _has_none(value.orelse)
    return isinstance(value, ast.Constant) and value.value is None


def _targets(loop: ast.For | ast.AsyncFor) -> frozenset[str]:
    return frozenset(node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name))


def _bodies(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """Yield the lists of statements inside a statement."""
    for name in ("body", "orelse", "finalbody"):
        yield getattr(statement, name, None) or []
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield part.body
