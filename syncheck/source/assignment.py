"""Whether a name is certainly bound where a statement begins, whichever way the program got there.

Source:
    The Java Language Specification, chapter 16, "Definite Assignment". A loop is assumed to run at least once, and code
    that uses a name shows that it is bound.
"""

import ast
import functools
from collections.abc import Iterable, Iterator

from syncheck.source.bindings import Function
from syncheck.source.expressions import bodies, parsed

_Inner = Function | ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp | ast.ClassDef
_Loop = ast.For | ast.AsyncFor | ast.While
_CREATING = ("__new__", "__init__", "__post_init__", "setUp", "setup")


def is_certainly_bound(expression: str, body: list[ast.stmt], target: ast.stmt, *, initially: bool = False) -> bool:
    """Return whether a name, or an attribute such as `self.x`, is bound whenever a statement of a function begins.

    It is not if the program may get there for the first time before it binds the name.

    Args:
        expression: the name or attribute.
        body: the statements of the function, or of the module.
        target: a statement in it.
        initially: whether the name is bound at first, as a parameter is.
    """
    search = _Search(expression, target)
    search.run(body, is_bound=initially)
    return search.found is not False


def are_attributes_set(expression: str, own: str, kind: ast.ClassDef, method: Function, target: ast.stmt) -> bool:
    """Return whether an expression's attributes of `self` are set whenever a statement of a method begins.

    Args:
        expression: the expression.
        own: the name of the object in the method: "self".
        kind: the class.
        method: the method.
        target: a statement in it.
    """
    node = parsed(expression)
    if node is None:
        return True
    setters, at_creation = _setters(kind), _run_at_creation(kind)
    loaded = {attribute for attribute, context in _attributes(method, own) if context is ast.Load}
    for attribute, _ in _attributes(node, own):
        its = setters.get(attribute, set())
        are_set_together = any(setters[other] <= its - {method.name} for other in loaded & setters.keys())
        is_set_elsewhere = bool(its & at_creation) and method.name not in its & at_creation
        if not its or is_set_elsewhere or are_set_together:
            continue
        if not is_certainly_bound(f"{own}.{attribute}", method.body, target):
            return False
    return True


def _attributes(node: ast.AST, owner: str) -> Iterator[tuple[str, type[ast.expr_context]]]:
    """Yield the attributes of a variable in some code, each with whether it is read, set or deleted."""
    for inner in ast.walk(node):
        match inner:
            case ast.Attribute(value=ast.Name(id=name), attr=attribute, ctx=context) if name == owner:
                yield attribute, type(context)
            case _:
                pass


@functools.lru_cache(maxsize=16)  # asked about for each expression in a line of advice
def _setters(kind: ast.ClassDef) -> dict[str, set[str]]:
    """Return the attributes that a class sets -> the names of the methods that do; "" for the body of the class."""
    found: dict[str, set[str]] = {}
    for member in kind.body:
        where = member.name if isinstance(member, Function) else ""
        for node in ast.walk(member):
            match node:
                case ast.Attribute(value=ast.Name(), attr=name, ctx=ast.Store()) if where:
                    found.setdefault(name, set()).add(where)
                case ast.Name(id=name, ctx=ast.Store()) if not where:
                    found.setdefault(name, set()).add(where)
                case _:
                    pass
    return found


@functools.lru_cache(maxsize=16)
def _run_at_creation(kind: ast.ClassDef) -> set[str]:
    """Return the names of the methods that run when an object is created, and "" for the class itself."""
    methods = {member.name: member for member in kind.body if isinstance(member, Function)}
    found, waiting = {""}, [name for name in _CREATING if name in methods]
    while waiting:
        name = waiting.pop()
        found.add(name)
        called = {node.attr for node in ast.walk(methods[name]) if isinstance(node, ast.Attribute)}
        waiting += [other for other in called & methods.keys() if other not in found]
    return found


class _Search:
    """Follows the statements of a function up to a target.

    A state is whether the name is bound; None where execution never gets.

    Attributes:
        found: the state at the target; None if it was not reached.
    """

    def __init__(self, name: str, target: ast.stmt) -> None:
        self.found: bool | None = None
        self._name, self._last_name, self._target = name, name.rpartition(".")[2], target
        self._leaving: list[list[bool]] = []  # for each loop around, the states where an iteration is left early

    def run(self, body: list[ast.stmt], *, is_bound: bool) -> bool | None:
        """Return the state after some statements. Those after the target are not examined."""
        state: bool | None = is_bound
        for index, statement in enumerate(body):
            if statement is self._target:
                self.found = state or self._is_needed(body[index:])
            if self.found is not None:
                return None
            state = self._after(statement, is_bound=bool(state))
            if state is None:
                return None
        return state

    def _is_needed(self, body: list[ast.stmt]) -> bool:
        """Return whether statements use the name before they can bind it: then the program relies on it, too."""
        for statement in body:
            own = list(_own_expressions(statement))
            if self._uses(own, ast.Load):
                return True
            nodes = list(ast.walk(statement))
            is_rebound = self._uses(nodes, ast.Store) or any(map(self._is_named, nodes))
            if is_rebound or any(map(_leaves, nodes)):
                return False
        return False

    def _uses(self, nodes: Iterable[ast.AST], context: type[ast.expr_context]) -> bool:
        return any(
            isinstance(node, ast.Name | ast.Attribute)
            and (node.id if isinstance(node, ast.Name) else node.attr) == self._last_name
            and isinstance(node.ctx, context)
            and ast.unparse(node) == self._name
            for node in nodes
        )

    def _after(self, statement: ast.stmt, *, is_bound: bool) -> bool | None:
        """Return the state after a statement."""
        own = list(_own_expressions(statement))
        if isinstance(statement, ast.Delete):
            return is_bound and not self._uses(own, ast.Del)
        is_bound |= self._uses(own, ast.Load) or self._uses(own, ast.Store) or self._is_named(statement)
        if _leaves(statement):
            if self._leaving and isinstance(statement, ast.Break | ast.Continue):
                self._leaving[-1].append(is_bound)
            return None
        return self._after_compound(statement, is_bound=is_bound)

    def _after_compound(self, statement: ast.stmt, *, is_bound: bool) -> bool | None:
        """Return the state after a statement whose own expressions have been evaluated."""
        match statement:
            case ast.If(body=body, orelse=orelse):
                return _joined([self.run(body, is_bound=is_bound), self.run(orelse, is_bound=is_bound)])
            case ast.For() | ast.AsyncFor() | ast.While():
                return self._after_loop(statement, is_bound=is_bound)
            case ast.With(body=body) | ast.AsyncWith(body=body):
                return self.run(body, is_bound=is_bound)
            case ast.Try() | ast.TryStar():
                return self._after_try(statement, is_bound=is_bound)
            case ast.Match(cases=cases):
                ends = [self.run(case.body, is_bound=is_bound) for case in cases]
                is_complete = any(isinstance(c.pattern, ast.MatchAs) and c.guard is None for c in cases)
                return _joined(ends if is_complete else [*ends, is_bound])
            case _:
                return is_bound

    def _is_named(self, statement: ast.AST) -> bool:
        """Return whether a statement binds the name by itself: an import or a definition."""
        if isinstance(statement, ast.Import | ast.ImportFrom):
            return self._name in {alias.asname or alias.name.partition(".")[0] for alias in statement.names}
        return isinstance(statement, Function | ast.ClassDef) and statement.name == self._name

    def _after_loop(self, loop: _Loop, *, is_bound: bool) -> bool | None:
        self._leaving.append([])
        end = self.run(loop.body, is_bound=is_bound)
        ends = _joined([end, *self._leaving.pop()])
        after = is_bound if ends is None else ends  # None: the first iteration returns
        return self.run(loop.orelse, is_bound=after)

    def _after_try(self, statement: ast.Try | ast.TryStar, *, is_bound: bool) -> bool | None:
        end = self.run(statement.body, is_bound=is_bound)
        handlers = statement.handlers
        ends = [self.run(one.body, is_bound=is_bound or one.name == self._name) for one in handlers]
        ends.append(None if end is None else self.run(statement.orelse, is_bound=end))
        last = self.run(statement.finalbody, is_bound=is_bound)
        after = _joined(ends)
        return None if after is None or last is None else after or last


def _own_expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the nodes of a statement, without those of the statements, functions and comprehensions inside it."""
    waiting: list[ast.AST] = [statement]
    inside = {id(inner) for body in bodies(statement) for inner in body}
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [
            child
            for child in ast.iter_child_nodes(node)
            if id(child) not in inside and not isinstance(child, _Inner | ast.ExceptHandler | ast.match_case)
        ]


def _leaves(node: ast.AST) -> bool:
    return isinstance(node, ast.Return | ast.Raise | ast.Break | ast.Continue)


def _joined(states: list[bool | None]) -> bool | None:
    """Return the state where several ways meet."""
    reached = [state for state in states if state is not None]
    return all(reached) if reached else None
