"""Code that may run again: the bodies of loops and functions."""

import ast
from collections.abc import Iterable

from syncheck.source.expressions import has_line

_REPEATED = (ast.For, ast.AsyncFor, ast.While, ast.FunctionDef, ast.AsyncFunctionDef)


def may_run_again(tree: ast.Module, inside: Iterable[int], outside: int) -> bool:
    """Return whether a loop or function contains some lines, and not another one, which then runs before them.

    Args:
        tree: the file.
        inside: the lines that it contains.
        outside: the line that it does not contain; 0 if that is in another file.
    """
    repeated = [node for node in ast.walk(tree) if isinstance(node, _REPEATED)]
    lines = tuple(inside)
    return any(all(has_line(node, line) for line in lines) and not has_line(node, outside) for node in repeated)
