"""Whether a program may also run without a GPU, judging by its source."""

import ast
from functools import lru_cache

from syncheck.source.expressions import last_name
from syncheck.source.scopes import Scopes


def may_lack_gpu(scopes: Scopes | None) -> bool:
    """Return whether a file asks for a GPU and continues without one: `"cuda" if torch.cuda.is_available() else "cpu"`.

    A file that stops without a GPU (`assert torch.cuda.is_available()`) does not count, nor does an unreadable one.
    """
    return scopes is not None and _continues_without(scopes.tree)


@lru_cache(maxsize=16)
def _continues_without(tree: ast.Module) -> bool:
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    marks = {part for node in parents for mark in getattr(node, "decorator_list", ()) for part in ast.walk(mark)}
    asked = [node for node in parents if _asks_for_gpu(node) and node not in marks]
    return any(not _stops(_statement(call, parents)) for call in asked)


def _asks_for_gpu(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr="is_available")):
            return last_name(owner) in {"cuda", "xpu", "accelerator"}
        case _:
            return False


def _statement(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> ast.AST:
    while not isinstance(node, ast.stmt | ast.Module):
        node = parents[node]
    return node


def _stops(statement: ast.AST) -> bool:
    """Return whether a statement ends the program, the function or a test unless its condition holds."""
    match statement:
        case ast.Assert():
            return True
        case ast.If(test=ast.UnaryOp(op=ast.Not()), body=[*_, ast.Raise() | ast.Return(value=None)]):
            return True
        case ast.If(test=ast.UnaryOp(op=ast.Not()), body=[*_, ast.Expr(value=ast.Call(func=called))]):
            return last_name(called) in {"exit", "_exit", "skip"}
        case ast.If(orelse=[*_, ast.Raise()]):
            return True
        case _:
            return False
