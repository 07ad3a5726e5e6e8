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
    asked = [node for node in parents if isinstance(node, ast.Call) and last_name(node.func) == "is_available"]
    return bool(asked) and not any(_stops(_statement(call, parents)) for call in asked)


def _statement(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> ast.AST:
    while not isinstance(node, ast.stmt | ast.Module):
        node = parents[node]
    return node


def _stops(statement: ast.AST) -> bool:
    """Return whether a statement ends the program, the function or a test unless its condition holds."""
    match statement:
        case ast.Assert() | ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return True
        case ast.If(test=ast.UnaryOp(op=ast.Not()), body=[*_, last]):
            is_exit = isinstance(last, ast.Expr) and isinstance(last.value, ast.Call)
            return isinstance(last, ast.Raise | ast.Return) or (is_exit and "exit" in ast.unparse(last))
        case _:
            return False
