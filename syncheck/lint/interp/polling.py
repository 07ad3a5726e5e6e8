"""Loops that may poll: they may end because work is complete."""

import ast
from collections.abc import Iterator

from syncheck.lint.interp.decisions import queried
from syncheck.lint.nodes import once, text, walk

_ASSIGNMENTS = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.NamedExpr)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_COUNTING = frozenset({"len", "next"})
_AT_END = frozenset({"StopIteration", "StopAsyncIteration"})
_RAISED = ast.Call(func=ast.Name(id="raised", ctx=ast.Load()), args=[], keywords=[])
"""Stands for the condition that something raises an exception."""


def polled(loop: ast.While) -> ast.expr | None:
    """Return the event or the stream of a loop that does nothing until its work is complete; None for other loops.

    Such a loop is `while not event.query(): pass`. Other tasks may run meanwhile.
    """
    asked, outcome = queried(loop.test)
    match asked:
        case ast.Call(func=ast.Attribute(value=owner)) if not outcome and not loop.orelse and _only_passes_time(loop):
            return owner
        case _:
            return None


def _only_passes_time(loop: ast.While) -> bool:
    return all(isinstance(step, ast.Pass) or "sleep" in text(step) for step in loop.body)


@once
def may_poll(loop: ast.While) -> bool:
    """Return whether a loop may end because work is complete.

    Its condition depends on a call other than `len`, or the loop only passes the time. An endless loop has the
    conditions of its exits. Like a `for` loop, it does not poll if it ends when an iterator has no more items.
    """
    if _only_passes_time(loop):
        return True
    if not isinstance(loop.test, ast.Constant):
        return _depends_on_call(loop.test, loop)
    exits = list(_exits(loop.body, ()))
    return not exits or any(_depends_on_call(test, loop) for tests in exits for test in tests)


def _depends_on_call(test: ast.expr, loop: ast.While) -> bool:
    """Return whether a condition depends on a call other than `len` and `next`, or on their results."""
    read = {text(node) for node in walk(test) if isinstance(node, ast.Name | ast.Attribute)} - {"self"}
    assigned = (node for step in loop.body for node in walk(step) if isinstance(node, _ASSIGNMENTS))
    sources = [node.value for node in assigned if node.value is not None and read & set(map(text, _targets(node)))]
    calls = (node for source in (test, *sources) for node in walk(source) if isinstance(node, ast.Call))
    return any(text(call.func) not in _COUNTING for call in calls)


def _targets(node: ast.Assign | ast.AugAssign | ast.AnnAssign | ast.NamedExpr) -> list[ast.AST]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [inner for target in targets for inner in walk(target)]


def _exits(
    body: list[ast.stmt], tests: tuple[ast.expr, ...], *, is_inner: bool = False
) -> Iterator[tuple[ast.expr, ...]]:
    """Yield the conditions of each statement that leaves a loop.

    Args:
        body: a part of the loop.
        tests: the conditions of this part.
        is_inner: whether it is in another loop, which `break` leaves instead.
    """
    for step in body:
        if isinstance(step, ast.Return) or (isinstance(step, ast.Break) and not is_inner):
            yield tests
        for part, more in _parts(step):
            yield from _exits(part, (*tests, *more), is_inner=is_inner or isinstance(step, _LOOPS))


def _parts(step: ast.stmt) -> list[tuple[list[ast.stmt], tuple[ast.expr, ...]]]:
    """Return the statements in a compound statement, each list with its conditions."""
    match step:
        case ast.If(test=test):
            return [(step.body, (test,)), (step.orelse, (test,))]
        case ast.Try():
            handlers = [(one.body, () if _is_end(one) else (_RAISED,)) for one in step.handlers]
            return [(step.body, ()), (step.orelse, ()), (step.finalbody, ()), *handlers]
        case ast.With() | ast.AsyncWith() | ast.For() | ast.AsyncFor() | ast.While():
            return [(step.body, ())]
        case _:
            return []


def _is_end(handler: ast.ExceptHandler) -> bool:
    """Return whether a handler is for the end of an iterator."""
    return isinstance(handler.type, ast.Name) and handler.type.id in _AT_END
