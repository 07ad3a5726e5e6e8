"""Guards: branches that leave the current path, such as `if tensor is None: return`. Most calls skip them."""

import ast
from collections.abc import Iterable
from typing import Protocol, TypeGuard

from syncheck.lint.interp.decisions import Turn
from syncheck.lint.interp.device_tests import on_gpu
from syncheck.lint.interp.values import Call, Function, Instance, Value
from syncheck.lint.nodes import names, once, text, walk
from syncheck.semantics.python_api import MEMBERS_WITHOUT_MEMORY

_WARNING = frozenset({"warn", "warning", "warn_once", "warning_once"})
_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_MANY_ITERATIONS = 5
_ASSIGNMENTS = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.NamedExpr)
_LEAVING = (ast.Return, ast.Raise, ast.Continue, ast.Break)


class _Evaluator(Protocol):
    def call_function(self, function: Function, call: Call) -> Value: ...


def as_tested(evaluator: _Evaluator, value: Value, node: ast.expr) -> Value:
    """Return what a condition tests: the result of an object's `__bool__`, if its class defines it, or the value."""
    method = value.kind.find("__bool__") if isinstance(value, Instance) else None
    return evaluator.call_function(method, Call(node, [value])) if isinstance(method, Function) else value


def leaves(body: list[ast.stmt]) -> bool:
    """Return whether a branch ends by leaving the current path."""
    return bool(body) and isinstance(body[-1], _LEAVING)


@once
def by_default(node: ast.If) -> bool:
    """Return the default decision at an undetermined condition: skip a guard, and take any other branch.

    Most calls also skip a branch that warns. A test for a GPU succeeds.
    """
    is_on_gpu = on_gpu(node.test)
    if is_on_gpu is not None:
        return is_on_gpu
    if not node.orelse and any(_warns(statement) for statement in node.body):
        return False
    return not leaves(node.body) or leaves(node.orelse)


@once
def moves_tensor(node: ast.If) -> bool:
    """Return whether a branch moves what its condition tests: `if isinstance(x, Tensor): return x.cuda()`."""
    match node.test, node.body[-1]:
        case (
            ast.Call(func=ast.Name(id="isinstance" | "hasattr") | ast.Attribute(attr="is_tensor"), args=[asked, *_]),
            ast.Return(value=ast.Call(func=ast.Attribute(value=moved, attr="to" | "cuda"))),
        ):
            return text(asked) == text(moved)
        case _:
            return False


@once
def refuses(node: ast.If) -> bool:
    """Return whether a branch only raises an error, because of local variables: `if not path: raise ValueError`.

    A path on which it would run follows from other choices of the linter. Objects may refuse to be used twice.
    """
    is_of_object = any(isinstance(part, ast.Attribute) for part in walk(node.test))
    return isinstance(node.body[-1], ast.Raise) and not node.orelse and not is_of_object


@once
def dispatches(node: ast.If) -> bool:
    """Return whether a branch only returns what another method of the object returns: `if a: return self._run_a(x)`."""
    match node.body:
        case [ast.Return(value=ast.Call(func=ast.Attribute(value=ast.Name(id="self"))))]:
            return not node.orelse
        case _:
            return False


def turn_of_other(node: ast.If, *, has_work: bool) -> Turn:
    """Return when to try the other decision at a branch.

    Args:
        node: the branch.
        has_work: whether the path has started anything that could lead to a finding.
    """
    if dispatches(node):
        return Turn.FIRST
    return Turn.EARLY if has_work and leaves(node.body) and not isinstance(node.body[-1], ast.Raise) else Turn.NORMAL


@once
def grown(node: ast.If) -> ast.expr | None:
    """Return what a branch replaces because it is too small: `b` of `if b.numel() < n: b = torch.empty(n)`."""
    tests = node.test.values if isinstance(node.test, ast.BoolOp) else [node.test]
    sizes = [test for test in tests if isinstance(test, ast.Compare) and isinstance(test.ops[0], _ORDERS)]
    if node.orelse or not sizes:
        return None
    asked = {text(inner) for test in sizes for inner in walk(test) if isinstance(inner, ast.Name | ast.Attribute)}
    assigned = [target for step in node.body if isinstance(step, ast.Assign) for target in step.targets]
    return next((target for target in assigned if text(target) in asked), None)


@once
def is_periodic(node: ast.If) -> bool:
    """Return whether a branch surely does not run in some iterations: `if step % log_every == 0`.

    With a small constant, its iterations may alternate with others that do the same.
    """
    match node.test:
        case ast.BoolOp(op=ast.And(), values=tests):
            pass
        case test:
            tests = [test]
    return not node.orelse and any(map(_is_every_nth, tests))


def _is_every_nth(test: ast.expr) -> bool:
    match test:
        case ast.Compare(left=ast.BinOp(op=ast.Mod(), right=n), ops=[ast.Eq()]):
            pass
        case ast.UnaryOp(op=ast.Not(), operand=ast.BinOp(op=ast.Mod(), right=n)):
            pass
        case _:
            return False
    return not isinstance(n, ast.Constant) or (isinstance(n.value, int) and n.value >= _MANY_ITERATIONS)


def _warns(statement: ast.stmt) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in _WARNING


def is_over(body: list[ast.stmt], *, in_callee: bool) -> bool:
    """Return whether a branch cannot have run on the path that skips it.

    A branch that returns from a called function may have run all the same: the caller then continues.

    Args:
        body: the branch.
        in_callee: whether the function was called by another interpreted function.
    """
    return bool(body) and (isinstance(body[-1], ast.Raise) or (isinstance(body[-1], ast.Return) and not in_callee))


def reads_any(test: ast.expr, variables: set[str]) -> bool:
    """Return whether a condition reads the value of one of some variables, not just its identity, shape or type."""
    match test:
        case ast.BoolOp(values=parts):
            return any(reads_any(part, variables) for part in parts)
        case ast.Compare(ops=[ast.Is() | ast.IsNot() | ast.In() | ast.NotIn(), *_]):
            return False
        case _:
            known = {inner for node in walk(test) if _asks_layout(node) for inner in walk(node)}
            return any(isinstance(node, ast.Name) and node.id in variables and node not in known for node in walk(test))


def _asks_layout(node: ast.AST) -> bool:
    """Return whether an expression asks for the shape or the type of a tensor, which the host knows."""
    match node:
        case ast.Attribute(attr=name):
            return name in MEMBERS_WITHOUT_MEMORY
        case ast.Call(func=ast.Name(id="len" | "isinstance" | "type" | "callable" | "hasattr")):
            return True
        case _:
            return False


def used_in(body: list[ast.stmt]) -> set[str]:
    """Return the names in a branch. Handles that only one branch waits for, or keeps, must not count as forgotten."""
    return {name for statement in body for name in names(statement)}


def waits(body: Iterable[ast.AST]) -> bool:
    """Return whether a loop or a comprehension contains an attribute named `wait`."""
    return any(_waits(statement) for statement in body)


@once
def _waits(statement: ast.AST) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr == "wait" for node in walk(statement))


def may_end_otherwise(loop: ast.For | ast.AsyncFor, *, is_cut: bool) -> bool:
    """Return whether the end of a loop may leave other work running than its interpreted iterations.

    Args:
        loop: the loop.
        is_cut: whether it has more iterations than were interpreted.
    """
    return waits(loop.body) and (looks_ahead(loop) or (is_cut and not leaves_last(loop)))


@once
def looks_ahead(loop: ast.For | ast.AsyncFor) -> bool:
    """Return whether only some iterations start work for the next one, as in `if i + 1 < n: work = start(i + 1)`."""
    counters = names(loop.target)
    branches = (node for step in loop.body for node in walk(step) if isinstance(node, ast.If))
    chosen = (node for node in branches if isinstance(node.test, ast.Compare) and counters & names(node.test))
    return any(_is_bound(inner) for node in chosen for step in node.body for inner in walk(step))


@once
def leaves_last(loop: ast.For | ast.AsyncFor) -> bool:
    """Return whether each iteration waits only for what the one before it has started.

    `if previous is not None: previous.wait()`. What the last iteration starts is still running after such a loop.
    """
    carried = {node.id for step in loop.body for node in walk(step) if _is_bound(node)} - names(loop.target)
    return all(_waits_for(step, carried) for step in loop.body)


def _waits_for(step: ast.AST, variables: set[str]) -> bool:
    """Return whether the only waits in a statement are for some variables, under no condition but that one is set."""
    if not _waits(step):
        return True
    match step:
        case ast.If(test=test, body=body, orelse=[]) if set_variable(test):
            return all(_waits_for(inner, variables) for inner in body)
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="wait"))):
            return name in variables
        case _:
            return False


def set_variable(test: ast.expr) -> str:
    """Return the variable that a condition tests to be set: `x is not None`, or just `x`; "" for other conditions."""
    match test:
        case ast.Compare(left=ast.Name(id=name), ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]):
            return name
        case ast.Name(id=name):
            return name
        case _:
            return ""


def _is_bound(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
