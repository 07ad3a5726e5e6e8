"""Analysis of expressions given as text."""

import ast
import re
from collections.abc import Container, Iterable, Iterator
from functools import lru_cache

from syncheck.source.text import parse_expression

STREAM_CONTEXTS = frozenset({"stream", "StreamContext"})
"""Last names of the calls that make a stream current in a block."""


@lru_cache(maxsize=4096)
def parsed(expression: str) -> ast.expr | None:
    """Return the tree of an expression; None if the text is not an expression."""
    try:
        return parse_expression(expression)
    except SyntaxError:
        return None


@lru_cache(maxsize=4096)
def normalized(expression: str) -> str:
    """Return an expression in the normal form of `ast.unparse`; "" if it does not parse."""
    tree = parsed(expression)
    return "" if tree is None else ast.unparse(tree)


@lru_cache(maxsize=4096)
def names_in(expression: str) -> frozenset[str]:
    """Return the names used in an expression."""
    tree = parsed(expression)
    if tree is None:
        return frozenset({""})  # a name that is never bound
    return frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))


def has_index(expression: str) -> bool:
    """Return whether an expression contains a numeric index, or "[...]"."""
    return re.search(r"\[(\d+|\.\.\.)\]", expression) is not None


def subscripts_in(expression: str) -> list[ast.Subscript]:
    """Return the subscripts in the text of an expression."""
    return subscripts_of(parsed(expression))


def subscripts_of(node: ast.AST | None) -> list[ast.Subscript]:
    """Return the subscripts in a file, a statement or an expression."""
    return [] if node is None else [part for part in ast.walk(node) if isinstance(part, ast.Subscript)]


def calls_in(node: ast.AST | None) -> list[ast.Call]:
    """Return the calls in a statement or an expression."""
    return [] if node is None else [part for part in ast.walk(node) if isinstance(part, ast.Call)]


def expressions_of(statement: ast.stmt | None) -> Iterator[ast.expr]:
    """Yield the expressions in a statement, except those in the statements inside it."""
    waiting: list[ast.AST] = [] if statement is None else [statement]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.expr):
            yield node
        waiting += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]


def arguments_of(call: ast.Call) -> list[ast.expr]:
    """Return the values that a call passes, those of keywords last."""
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def object_of_call(node: ast.AST | None, method: str, line: int, column: int) -> str:
    """Return the expression of the object whose method is called at a position in a statement.

    Return "" if there is no call of that method, or if the object is not a variable, an attribute or an item.
    """
    call = _call_of(node, method, line, column)
    owner = getattr(call.func, "value", None) if call is not None else None
    return ast.unparse(owner) if isinstance(owner, ast.Name | ast.Attribute | ast.Subscript) else ""


def argument_of_call(node: ast.AST | None, method: str, line: int, column: int) -> str:
    """Return the only argument of a call of a method at a position in a statement; "" if there is no such call."""
    call = _call_of(node, method, line, column)
    given = arguments_of(call) if call is not None else []
    return ast.unparse(given[0]) if len(given) == 1 and not isinstance(given[0], ast.Starred) else ""


def _call_of(node: ast.AST | None, method: str, line: int, column: int) -> ast.Call | None:
    """Return the call of a method at a position in a statement; None if there is none."""
    for call in calls_in(node):
        if is_at(call, line, column) and isinstance(call.func, ast.Attribute) and call.func.attr == method:
            return call
    return None


def is_at(node: ast.stmt | ast.expr, line: int, column: int) -> bool:
    """Return whether a node begins at a position, with columns from 1, and thus is the call there."""
    return (node.lineno, node.col_offset + 1) == (line, column)


def bodies(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """Yield the lists of statements inside a statement."""
    for name in ("body", "orelse", "finalbody"):
        yield getattr(statement, name, None) or []
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield part.body


def has_line(node: ast.stmt | ast.expr, line: int) -> bool:
    """Return whether a line is one of a node's lines."""
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def holds(node: ast.stmt | ast.expr, line: int, column: int) -> bool:
    """Return whether a position is inside a node; the column is counted from 0, as by `ast`."""
    start, end = (node.lineno, node.col_offset), (node.end_lineno or node.lineno, node.end_col_offset or 0)
    return start <= (line, column) < end


def last_name(expression: ast.expr | None) -> str:
    """Return the name of a variable or an attribute: of `self.slots`, "slots"; "" for anything else."""
    match expression:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


_DICTS = frozenset({"dict", "defaultdict", "OrderedDict"})
_LISTS = frozenset({"list", "deque", "set"})


def container_kind(value: ast.expr) -> str:
    """Return the kind of container that an expression creates: "dict", "list" for lists and alike; "" for others."""
    called = ast.unparse(value.func).rpartition(".")[2] if isinstance(value, ast.Call) else ""
    if isinstance(value, ast.Dict | ast.DictComp) or called in _DICTS:
        return "dict"
    is_list = isinstance(value, ast.List | ast.ListComp | ast.Set | ast.SetComp) or called in _LISTS
    is_repeated = isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult) and isinstance(value.left, ast.List)
    return "list" if is_list or is_repeated else ""


def manager_around(statements: Iterable[ast.stmt], line: int, functions: Container[str]) -> ast.withitem | None:
    """Return the innermost `function(...)` of a `with` statement that contains a line; None if there is none."""
    found = None
    for block in statements:
        if isinstance(block, ast.With | ast.AsyncWith) and has_line(block, line):
            for item in block.items:
                if isinstance(item.context_expr, ast.Call) and last_name(item.context_expr.func) in functions:
                    found = item
    return found
