"""Whether a file is a script, which does more than define names for other files."""

import ast
from collections.abc import Callable, Iterable

from syncheck.lint.nodes import branches, walk

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)


def does_more_than_define(body: Iterable[ast.AST], has_anchor_word: Callable[[ast.stmt], bool]) -> bool:
    """Return whether a module does more than define names.

    Args:
        body: the statements of the module.
        has_anchor_word: returns whether a statement contains a word that matters; see `prefilter.anchor_lines`.
    """
    return any(_acts(statement, has_anchor_word) for statement in body)


def _acts(statement: ast.AST, has_anchor_word: Callable[[ast.stmt], bool]) -> bool:
    """Return whether a statement has an effect. A branch that only imports and defines, as for types, does not."""
    match statement:
        case ast.If(test=test) if any(isinstance(node, ast.Call) for node in walk(test)):
            return True
        case ast.If() | ast.Try() | ast.ExceptHandler():
            return does_more_than_define(branches(statement), has_anchor_word)
        case ast.For() | ast.While() | ast.With():
            return True
        case ast.Expr(value=value):
            return not isinstance(value, ast.Constant)
        case ast.stmt():
            return has_anchor_word(statement) and not isinstance(statement, _DEFINITIONS)
        case _:
            return False
