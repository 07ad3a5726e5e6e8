"""Context managers and decorators that hide a timer or a stream from the functions that use them."""

import ast
import re
from collections.abc import Callable, Iterator

from syncheck.lint import deferred
from syncheck.lint.nodes import once, walk

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_USED = re.compile(r"^[^\S\n]*(?:async\s+)?with\b(.*)$", re.MULTILINE)
_NAME = re.compile(r"([A-Za-z_]\w*)\s*\(")


def helpers_in(body: list[ast.stmt], matters: Callable[[ast.stmt], bool]) -> frozenset[str]:
    """Return the names of the context managers and decorators that a module defines.

    Args:
        body: the statements of the module.
        matters: returns whether a statement contains an anchor; see `anchor_lines`.
    """
    return frozenset(_helpers(body, matters))


def _helpers(body: list[ast.stmt], matters: Callable[[ast.stmt], bool]) -> Iterator[str]:
    for statement in body:
        if isinstance(statement, ast.ClassDef) and matters(statement):
            members = [member for member in statement.body if isinstance(member, _Function)]
            if any(member.name == "__enter__" for member in members):
                yield statement.name
            yield from (member.name for member in members if _is_context(member) and matters(member))
        elif isinstance(statement, _Function) and matters(statement) and (_is_context(statement) or _wraps(statement)):
            yield statement.name


def _is_context(function: _Function) -> bool:
    return any("contextmanager" in ast.unparse(decorator) for decorator in function.decorator_list)


def _wraps(function: _Function) -> bool:
    """Return whether a function defines and returns another one."""
    text = deferred.source_of(function)
    if text is not None and not re.search(r"^\s+(?:async\s+)?def\b", text, re.MULTILINE):
        return False
    return any(isinstance(node, _Function) for node in function.body)


def uses_helper(function: _Function, helpers: frozenset[str]) -> bool:
    """Return whether a function is decorated by a helper, or uses one as a context."""
    if not helpers:
        return False
    if any(
        isinstance(node, ast.Name) and node.id in helpers for used in function.decorator_list for node in walk(used)
    ):
        return True
    text = deferred.source_of(function)
    if text is None:
        return not helpers.isdisjoint(_contexts(function))
    found = (name for line in _USED.findall(text) for name in _NAME.findall(line))
    return any(name in helpers for name in found)


@once
def _contexts(function: ast.AST) -> frozenset[str]:
    """Return the last names of the calls that a function uses as contexts."""
    items = [
        item.context_expr
        for node in walk(function)
        if isinstance(node, ast.With | ast.AsyncWith)
        for item in node.items
    ]
    called = (item.func for item in items if isinstance(item, ast.Call))
    return frozenset(
        node.attr if isinstance(node, ast.Attribute) else node.id
        for node in called
        if isinstance(node, ast.Attribute | ast.Name)
    )
