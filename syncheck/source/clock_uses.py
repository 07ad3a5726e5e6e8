"""Uses of a clock: whether a program may subtract what a call returns."""

import ast
import builtins
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType

from syncheck.source.expressions import last_name
from syncheck.source.lines import position
from syncheck.source.scopes import scopes_of
from syncheck.source.text import source_text

_SAVING = frozenset({"save", "dump", "dumps", "safe_dump", "safe_dump_all", "savez"})
"""Functions that write their arguments to a file or a text."""
_MAX_FILES = 64


def may_be_subtracted(code: CodeType, lasti: int) -> bool:
    """Return whether the result of a call may be an operand of a subtraction; also if the source is not known.

    It is not if a dictionary has it under a key that the file does not subtract, if it is saved, or if only
    comparisons, builtin functions and texts use it. What is passed on otherwise may be subtracted elsewhere.

    Args:
        code: the code that makes the call.
        lasti: the offset of the call in it.
    """
    scopes = scopes_of(source_text(code.co_filename))
    if scopes is None:
        return True
    file = _file(scopes.tree)
    node = file.calls.get(position(code, lasti))
    return node is None or file.may_subtract(node)


class _File:
    """A file, with what its subtractions mention.

    Attributes:
        calls: position of a call -> the call.
    """

    def __init__(self, tree: ast.Module) -> None:
        nodes = list(ast.walk(tree))
        self._parents = {child: node for node in nodes for child in ast.iter_child_nodes(node)}
        self.calls: dict[tuple[int | None, ...], ast.Call] = {
            (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset): node
            for node in nodes
            if isinstance(node, ast.Call)
        }
        self._subtracted = frozenset(name for node in nodes for part in _operands(node) for name in _names(part))
        self._loads: dict[str, list[ast.Name]] = {}
        for node in nodes:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                self._loads.setdefault(node.id, []).append(node)

    def may_subtract(self, node: ast.expr, known: frozenset[str] = frozenset()) -> bool:
        """Return whether the value of an expression may be an operand of a subtraction.

        Args:
            node: the expression.
            known: the variables whose uses are being looked at.
        """
        found = True
        match parent := self._parents.get(node):
            case ast.BinOp(op=ast.Sub()) | ast.AugAssign(op=ast.Sub()):
                pass
            case ast.BinOp() | ast.UnaryOp() | ast.IfExp() | ast.BoolOp() | ast.List() | ast.Tuple() | ast.Set():
                found = self.may_subtract(parent, known)
            case ast.Assign(targets=targets):
                found = any(self._may_subtract_target(target, known) for target in targets)
            case ast.NamedExpr(target=target):
                found = self._may_subtract_target(target, known) or self.may_subtract(parent, known)
            case ast.Dict(keys=keys, values=values) if node in values:
                found = self._is_subtracted(keys[values.index(node)])
            case ast.Compare() | ast.Expr() | ast.FormattedValue():
                found = False
            case ast.Call(func=function):
                name = last_name(function)
                found = name not in _SAVING and not (isinstance(function, ast.Name) and hasattr(builtins, name))
            case _:
                pass
        return found

    def _may_subtract_target(self, target: ast.expr, known: frozenset[str]) -> bool:
        match target:
            case ast.Name(id=name):
                loads = self._loads.get(name, []) if name not in known else []
                return any(self.may_subtract(load, known | {name}) for load in loads)
            case ast.Subscript(slice=ast.Constant() as key):
                return self._is_subtracted(key)
            case _:
                return True

    def _is_subtracted(self, key: ast.expr | None) -> bool:
        return not isinstance(key, ast.Constant) or key.value in self._subtracted


def _operands(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return [left, right]
        case ast.AugAssign(target=target, op=ast.Sub(), value=value):
            return [target, value]
        case _:
            return []


def _names(expression: ast.expr) -> Iterator[str]:
    """Yield the variables, attributes, functions and constant keys in an expression."""
    for node in ast.walk(expression):
        if isinstance(node, ast.Name | ast.Attribute):
            yield last_name(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@lru_cache(maxsize=_MAX_FILES)
def _file(tree: ast.Module) -> _File:
    return _File(tree)
