"""Code that runs between two positions of a function connected by a single path."""

import ast
from collections.abc import Iterator
from typing import TypeAlias

from syncheck.source.bindings import Function
from syncheck.source.expressions import bodies, holds

Position: TypeAlias = tuple[int, int]
"""(line, column), as counted by `ast`."""
_Step: TypeAlias = tuple[list[ast.stmt], int]
"""A list of statements, and the index of the statement that contains a position."""

_SIMPLE = (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Delete, ast.Pass, ast.Global, ast.Nonlocal)


class NotStraightLineError(Exception):
    """There may be more than one path."""


def between(
    body: list[ast.stmt], start: Position | None, end: Position | None, *, is_forward: bool = True, is_once: bool = True
) -> list[ast.AST]:
    """Return the code that runs from one position to another: expressions, and statements without nested statements.

    A statement that contains one of the positions is included as a whole.

    Args:
        body: the statements of a function or a module.
        start: the start position; None for the start of the body.
        end: the end position; None for the end of the body.
        is_forward: whether the start precedes the end within one statement.
        is_once: whether control has stayed in the body, so that an end before the start implies a loop in the body.

    Raises:
        NotStraightLineError: there may be a branch, a loop other than over `range()`, a jump or a handler in between.
    """
    first = _steps(body, start) if start is not None else []
    last = _steps(body, end) if end is not None else []
    if not first:
        return list(_up_to(body, last, 0, 0))
    if not last:
        return [*_rest(first, 0), *_all(body[first[0][1] + 1 :])]
    common = _common(first, last)
    if common == len(first) == len(last):
        return list(_whole(_at(first[-1])) if is_forward else _around(first, common, is_once=is_once))
    if common in {len(first), len(last)}:
        return list(_in_or_out(first, last, common))
    return list(_across(first, last, common, is_once=is_once))


def _in_or_out(first: list[_Step], last: list[_Step], common: int) -> Iterator[ast.AST]:
    """Yield the code from the start of a statement to a position in its body, or from that position to its end."""
    if common == len(first):
        yield from _entered(_at(first[-1]))
        yield from _up_to(last[common][0], last, common, 0)
    elif isinstance(_at(last[-1]), ast.With):
        yield from _rest(first, common - 1)
    else:
        raise NotStraightLineError


def _across(first: list[_Step], last: list[_Step], common: int, *, is_once: bool) -> Iterator[ast.AST]:
    """Yield the code from one statement of a list to another."""
    if first[common][0] is not last[common][0]:
        raise NotStraightLineError  # two branches of one statement
    block, index = first[common]
    if index > last[common][1]:
        yield from _around(first, common, is_once=is_once)
        return
    yield from _rest(first, common)
    yield from _up_to(block, last, common, index + 1)


def _at(step: _Step) -> ast.stmt:
    return step[0][step[1]]


def _common(first: list[_Step], last: list[_Step]) -> int:
    common = 0
    for one, other in zip(first, last, strict=False):
        if one[0] is not other[0] or one[1] != other[1]:
            break
        common += 1
    return common


def _steps(body: list[ast.stmt], position: Position) -> list[_Step]:
    """Return the path to the innermost statement that contains a position, outermost first.

    Raises:
        NotStraightLineError: no statement contains it.
    """
    steps: list[_Step] = []
    inner: list[ast.stmt] | None = body
    while inner is not None:
        index = next((index for index, statement in enumerate(inner) if holds(statement, *position)), None)
        if index is None:
            break
        steps.append((inner, index))
        inner = next((part for part in _bodies(inner[index]) if any(holds(s, *position) for s in part)), None)
    if not steps:
        raise NotStraightLineError
    return steps


def _bodies(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """Yield the lists of statements that may run as part of a statement."""
    if not isinstance(statement, Function | ast.ClassDef):
        yield from bodies(statement)


def _all(statements: list[ast.stmt]) -> Iterator[ast.AST]:
    for statement in statements:
        yield from _whole(statement)


def _whole(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield all code that runs in a statement."""
    match statement:
        case ast.FunctionDef(decorator_list=[], args=arguments):
            yield from (*arguments.defaults, *filter(None, arguments.kw_defaults))
        case ast.Return(value=value):
            yield from () if value is None else (value,)
        case ast.With() | ast.For():
            yield from _entered(statement)
            yield from _all(statement.body)
        case _ if isinstance(statement, _SIMPLE):
            yield statement
        case _:
            raise NotStraightLineError


def _entered(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the code that runs before the body of a statement that certainly runs its body."""
    match statement:
        case ast.With(items=items):
            yield from (item.context_expr for item in items)
        case ast.For(iter=ast.Call(func=ast.Name(id="range"), keywords=[]) as numbers, orelse=[]):
            yield numbers
        case ast.While(test=ast.Constant(value=True)) | ast.Try():
            return
        case _:
            raise NotStraightLineError


def _rest(steps: list[_Step], level: int) -> Iterator[ast.AST]:
    """Yield the code from a position to the end of its enclosing statement at a level."""
    yield from _whole(_at(steps[-1]))
    for deeper in range(len(steps) - 1, level, -1):
        block, index = steps[deeper]
        yield from _all(block[index + 1 :])
        outer = _at(steps[deeper - 1])
        if isinstance(outer, ast.For):
            yield from _whole(outer)  # it may run another iteration
        elif not (isinstance(outer, ast.With) or (isinstance(outer, ast.If) and block is outer.body)):
            raise NotStraightLineError


def _up_to(body: list[ast.stmt], steps: list[_Step], level: int, begin: int) -> Iterator[ast.AST]:
    """Yield the code from a statement of a body to a position, whose steps start at a level; all code without steps."""
    if not steps:
        yield from _all(body[begin:])
        return
    for deeper in range(level, len(steps)):
        block, index = steps[deeper]
        yield from _all(block[begin if deeper == level else 0 : index])
        statement, deepest = _at(steps[deeper]), steps[-1]
        if isinstance(statement, ast.Try) and (steps[deeper] is deepest or steps[deeper + 1][0] is not statement.body):
            raise NotStraightLineError
        is_simple = isinstance(statement, (*_SIMPLE, ast.Return))
        yield from _whole(statement) if is_simple else _entered(statement)


def _around(steps: list[_Step], level: int, *, is_once: bool) -> Iterator[ast.AST]:
    """Yield all code of the innermost loop around a level, because the path leads through its next iteration."""
    for outer in reversed(steps[:level] if is_once else []):
        loop = _at(outer)
        if isinstance(loop, ast.For | ast.While):
            yield from (*_entered(loop), *_all(loop.body))
            return
    raise NotStraightLineError
