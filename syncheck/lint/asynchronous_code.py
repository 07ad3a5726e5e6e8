"""Code that may leave work running when it returns, and the functions of a file that use it.

The code may be in another file of the repository. Functions that do not use any need not be interpreted, unless a word
in them matters to a rule.
"""

import ast
import re
from collections.abc import Iterable, Iterator

from syncheck.lint import deferred
from syncheck.lint.imports import Imports
from syncheck.lint.interp.scope import flat, full_name
from syncheck.lint.nodes import once, parameters
from syncheck.lint.nodes import text as unparsed
from syncheck.lint.prefilter import lines_with, spans_any

_KEEPING = ("Stream(", "pin_memory")
"""Words of classes whose instances may leave work running."""
_LEAVING = (
    "isend(", "irecv(", "async_op=True", "async_op=async_op", '"cpu", non_blocking', "'cpu', non_blocking",
    '"cpu"), non_blocking', "'cpu'), non_blocking",
)  # fmt: skip
"""Words of functions, and of classes, that may leave work running."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


class AsynchronousCode:
    """The functions and classes that may leave work running, as one file names them.

    Args:
        module: the file.
        text: its source.
        imports: finds what it imports from other files of the repository.
    """

    def __init__(self, module: ast.Module, text: str, imports: Imports) -> None:
        self._own = frozenset(_own_names(module, text))
        self._linked = frozenset(_imported_names(module, imports))
        self._pattern = _calls_of(self._own, text, _given(self._own, text)) if self._own else None
        self._linked_pattern = _calls_of(self._linked, text, _given(self._linked, text)) if self._linked else None

    def is_used_by(self, function: Function) -> bool:
        """Return whether a function uses such code of its file. A constructor alone only prepares."""
        return _uses(function, self._own, self._pattern)

    def is_linked_to(self, function: Function) -> bool:
        """Return whether a function uses such code of another file. A constructor alone only prepares."""
        return _uses(function, self._linked, self._linked_pattern)

    def are_linked(self, kind: ast.ClassDef) -> bool:
        """Return whether methods of a class use such code."""
        methods = [member for member in kind.body if isinstance(member, Function)]
        return any(self.is_linked_to(method) or self.is_used_by(method) for method in methods)


def _own_names(module: ast.Module, text: str) -> Iterator[str]:
    in_classes, in_functions = lines_with(text, (*_KEEPING, *_LEAVING)), lines_with(text, _LEAVING)
    for statement in module.body:
        words = in_classes if isinstance(statement, ast.ClassDef) else in_functions
        if isinstance(statement, ast.ClassDef | Function) and spans_any(statement, words):
            yield statement.name


def _imported_names(module: ast.Module, imports: Imports) -> Iterator[str]:
    for statement in flat(module.body):
        if isinstance(statement, ast.ImportFrom):
            for alias in statement.names:
                if imports.is_asynchronous(full_name(statement, alias.name)):
                    yield alias.asname or alias.name


def _given(linked: Iterable[str], text: str) -> set[str]:
    """Return the variables that are annotated with the names of some classes, or with containers of them."""
    return set(re.findall(rf"\b(\w+)\s*:\s*['\"]?(?:[\w.]+\[)?['\"]?(?:{_any(linked)})\b", text))


def _calls_of(names: Iterable[str], text: str, given: Iterable[str] = ()) -> re.Pattern[str]:
    """Return a pattern for calls of some names, and of methods of the objects that a class makes of them or is given.

    Args:
        names: functions and classes.
        text: the source of the file.
        given: variables that are objects of such classes.
    """
    made = rf"\b(?:{_any(names)})\("
    kept = rf"(?:{made}|\b(?:{_any(given)})\b)" if given else made
    owned = set(re.findall(rf"\bself\.(\w+)(?:\s*:[^=\n]+)?\s*=[^=\n]*{kept}", text))
    return re.compile(rf"{made}|\bself\.(?:{_any(owned)})(?:\.\w+|\s*[:)])" if owned else made)


def _any(names: Iterable[str]) -> str:
    return "|".join(sorted(names))


def _uses(function: Function, names: frozenset[str], called: re.Pattern[str] | None) -> bool:
    """Return whether a function calls some code, or is given objects of its classes; a constructor only prepares."""
    if called is None or function.name == "__init__":
        return False
    return calls_any(function, called) or not names.isdisjoint(_annotations(function))


def calls_any(function: Function, called: re.Pattern[str] | None) -> bool:
    """Return whether a function calls one of some functions or classes; a constructor alone only prepares."""
    if called is None or function.name == "__init__":
        return False
    source = deferred.source_of(function)
    return called.search(unparsed(function) if source is None else source) is not None


@once
def _annotations(function: Function) -> set[str]:
    """Return the words in the annotations of a function's parameters."""
    found: set[str] = set()
    for argument in parameters(function):
        if argument.annotation is not None:
            found.update(re.findall(r"\w+", ast.unparse(argument.annotation)))
    return found
