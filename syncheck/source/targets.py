"""What becomes of a new value in the source: the target that it is bound to, or the call that it is given."""

import ast
from collections.abc import Iterable

from syncheck.source.expressions import arguments_of, has_line, holds

_MANY = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Set)
"""Expressions that create several objects, without an expression that selects one of them."""


def target_in(nodes: Iterable[ast.AST], line: int, column: int) -> str:
    """Return the target of the assignment, among the given nodes, whose value is created at a position."""
    for node in nodes:
        match node:
            case ast.Assign(targets=[target, *_], value=ast.expr() as value) if _spans(node, line, column):
                return _pair(target, value, line, column)
            case ast.AnnAssign(target=target, value=ast.expr() as value) if _spans(node, line, column):
                return _pair(target, value, line, column)
            case ast.NamedExpr(target=target) | ast.Delete(targets=[target]) if _spans(node, line, column):
                return ast.unparse(target)
            case ast.Delete(targets=targets) if _spans(node, line, column):
                return next((ast.unparse(target) for target in targets if holds(target, line, column)), "")
            case ast.withitem(context_expr=made, optional_vars=ast.Name(id=name)) if _spans(made, line, column):
                return name
    return ""


def _spans(node: ast.stmt | ast.expr, line: int, column: int) -> bool:
    """Return whether a position is inside a node; a negative column means that it is unknown."""
    return has_line(node, line) if column < 0 else holds(node, line, column)


def _pair(target: ast.expr, value: ast.expr, line: int, column: int) -> str:
    """Return the part of a target that receives the value at a position: "b" for `g()` in `a, b = f(), g()`."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for one, part in zip(target.elts, value.elts, strict=True):
            if holds(part, line, column):
                return _pair(one, part, line, column)
    if not isinstance(target, ast.Name | ast.Attribute | ast.Subscript | ast.Tuple):
        return ""
    item = _item(value, line, column)
    return "" if item is None or (isinstance(target, ast.Tuple) and item[:4] != "[...") else ast.unparse(target) + item


def _item(value: ast.expr, line: int, column: int) -> str | None:
    """Return the index that selects the value at a position from an assigned value: "[1]" for `g()` in `[f(), g()]`.

    Returns:
        "[...]" for the element of a comprehension, "" for the assigned value itself, None if there is no such
        expression.
    """
    match value:
        case ast.Call(func=ast.Name(id="list" | "tuple"), args=[ast.GeneratorExp() | ast.ListComp() as inside]):
            return _item(inside, line, column)
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            keys = [str(index) for index in range(len(parts))]
        case ast.Dict(keys=names, values=parts):
            keys = [ast.unparse(name) if isinstance(name, ast.Constant) else "" for name in names]
        case ast.ListComp(elt=part) | ast.GeneratorExp(elt=part):
            keys, parts = ["..."], [part]
        case _:
            is_one_of_many = any(isinstance(part, _MANY) and holds(part, line, column) for part in ast.walk(value))
            return None if is_one_of_many else ""
    for key, part in zip(keys, parts, strict=True):
        if holds(part, line, column):
            inner = _item(part, line, column)
            return f"[{key}]{inner}" if key and inner is not None and "..." not in inner else None
    return ""


def passed_on_in(nodes: Iterable[ast.AST], line: int, column: int) -> bool:
    """Return whether any of the nodes is a call with an argument created at a position, or a lambda that creates it.

    This excludes `list(...)` and `tuple(...)` around a comprehension.
    """
    around = (node for node in nodes if isinstance(node, ast.Call | ast.Lambda))
    return any(holds(inside, line, column) for node in around for inside in _passed_on(node))


def _passed_on(node: ast.Call | ast.Lambda) -> list[ast.expr]:
    match node:
        case ast.Lambda(body=body):
            return [body]
        case ast.Call(func=ast.Name(id="list" | "tuple")):
            return []
        case _:
            return arguments_of(node)
