"""Nested functions that are passed to code which is not interpreted. It may call them, so they are interpreted too.

They see the work that the enclosing function has left running. Their findings are only likely, since the caller may
wait first.
"""

import ast
import contextlib
from collections.abc import Iterable

from syncheck.lint import deferred
from syncheck.lint.interp.control_flow import Raised
from syncheck.lint.interp.evaluator import Evaluator
from syncheck.lint.interp.functions import is_generator
from syncheck.lint.interp.scope import Scope
from syncheck.lint.interp.values import Call, Function, Value
from syncheck.lint.nodes import names, once, walk

_WORDS = frozenset({"Stream", "stream", "wait_stream", "record_stream"})
"""Words, one of which a function must contain to be interpreted here."""


class PassedFunctions:
    """Interprets functions that are passed to other code.

    Attributes:
        followed: the names of the functions interpreted this way.
        are_followed_at_end: also interpret the functions in the outermost function that nothing has called.

    Args:
        evaluator: interprets the program.
        known: the functions that have been interpreted.
    """

    def __init__(self, evaluator: Evaluator, known: set[ast.AST]) -> None:
        self.followed: set[str] = set()
        self.are_followed_at_end = False
        self._evaluator = evaluator
        self._known = known

    def interpret(self, values: Iterable[Value]) -> None:
        """Interpret the nested functions among some values, and those named in lambdas among them."""
        if self._evaluator.machine.ordering_only:
            return
        for value in values:
            if isinstance(value, Function):
                self._interpret(value)

    def _interpret(self, function: Function) -> None:
        if not isinstance(function.node, ast.Lambda):
            self._follow(function)
            return
        for name in names(function.node.body):
            found = function.scope.find(name)
            if isinstance(found, Function) and not isinstance(found.node, ast.Lambda):
                self._follow(found)

    def interpret_remaining(self, scope: Scope, depth: int) -> None:
        """At the end of the outermost function, interpret the nested functions that nothing has called."""
        if depth == 1 and self.are_followed_at_end and not self._evaluator.machine.ordering_only:
            for value in list(scope.names.values()):
                if isinstance(value, Function) and value.scope is scope:
                    self._follow(value)

    def _follow(self, function: Function) -> None:
        node = function.node
        is_inner = function.scope.parent is not None and not function.scope.module.is_imported
        if not is_inner or node in self._known or is_generator(node) or not _matters(node):
            return
        self.followed.add(getattr(node, "name", ""))
        with contextlib.suppress(Raised):
            result = self._evaluator.call_function(function, Call(node, [], {}, is_complete=False))
            self._evaluator.escape(result)


@once
def _matters(node: ast.AST) -> bool:
    """Return whether a function uses streams explicitly."""
    text = deferred.source_of(node)
    if text is not None and not any(word in text for word in _WORDS):
        return False
    return any(isinstance(inner, ast.Attribute) and inner.attr in _WORDS for inner in walk(node))
