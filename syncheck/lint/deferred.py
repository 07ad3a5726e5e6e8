"""Parses a file without the bodies of its functions. Each body is parsed when it is first accessed.

Parsing a file and freeing its tree takes longer than locating the bodies of its functions: once strings and comments
are blanked out, lines and brackets show where the bodies are. If that is uncertain, the file is parsed as a whole.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from syncheck.lint.nodes import branches, drop_annotations
from syncheck.source.text import parse_module

_TEXT = re.compile(
    r"""#[^\n]*"""
    r'''|"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"""|"[^"\\\n]*(?:\\.[^"\\\n]*)*"'''
    r"""|'''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'''|'[^'\\\n]*(?:\\.[^'\\\n]*)*'""",
    re.DOTALL,
)
"""A comment, or a string without its prefix."""
_OF_FORMATTED = re.compile(r"(?i)[ft]r?$|r[ft]$")
_FUNCTION = re.compile(r"^( *)(?:async +)?def\b", re.MULTILINE)
_SIGNATURE = re.compile(r"[()\[\]{}:]")
_ANNOTATED = re.compile(r"^ +[\w.]+ *:[^=\n]+=", re.MULTILINE)
"""An annotated assignment, or something that looks like one."""
_SHORTEST = 160
"""Minimum length in characters of a body that is worth deferring."""


class UncertainError(Exception):
    """The structure of a text cannot be determined without parsing it."""


@dataclass(frozen=True, slots=True)
class _Body:
    """A deferred body.

    Attributes:
        text: the text of the file.
        start: the offset of its first line.
        stop: the offset after its last token.
        column: the column of that offset, in UTF-8 bytes.
        line: its first line, from 1.
    """

    text: str
    start: int
    stop: int
    column: int
    line: int

    @property
    def last_line(self) -> int:
        """The line of its last token, from 1."""
        return self.line + self.text.count("\n", self.start, self.stop)

    def parse(self, head: str) -> list[ast.stmt]:
        """Return the statements with their positions in the file; `head`: stands for the line before the body."""
        lines_before = "\n" * (self.line - 2)
        tree = parse_module(f"{lines_before}{head}\n{self.text[self.start : self.stop]}\n")
        if _ANNOTATED.search(self.text, self.start, self.stop):
            drop_annotations(tree.body[0])
        return branches(tree.body[0])


class FunctionDef(ast.FunctionDef):
    """A function whose body is parsed on first access. After that, it is an `ast.FunctionDef`."""

    @property
    def body(self) -> list[ast.stmt]:  # type: ignore[override]  # settable on other nodes
        """The statements."""
        return _complete(self, ast.FunctionDef, "def _():")


class AsyncFunctionDef(ast.AsyncFunctionDef):
    """Like `FunctionDef`, for asynchronous functions."""

    @property
    def body(self) -> list[ast.stmt]:  # type: ignore[override]  # settable on other nodes
        """The statements."""
        return _complete(self, ast.AsyncFunctionDef, "async def _():")


KINDS: dict[type[ast.AST], Any] = {ast.FunctionDef: FunctionDef, ast.AsyncFunctionDef: AsyncFunctionDef}


def text_of(node: ast.AST) -> str | None:
    """Return the source of a body that is still deferred; None for any other node."""
    body: _Body | None = node.__dict__.get("deferred")
    return None if body is None else body.text[body.start : body.stop]


def source_of(node: ast.AST) -> str | None:
    """Return the source of a body that is or was deferred; None for any other node."""
    body: _Body | None = node.__dict__.get("deferred") or node.__dict__.get("was_deferred")
    return None if body is None else body.text[body.start : body.stop]


def may_yield(node: ast.AST) -> bool:
    """Return whether a function may be a generator function, judging by the source of a body that is or was deferred.

    This is cheaper than walking the body.
    """
    source = source_of(node)
    return source is None or "yield" in source


def _complete(node: ast.stmt, kind: type[ast.stmt], head: str) -> list[ast.stmt]:
    own = node.__dict__
    found: list[ast.stmt] = own["deferred"].parse(head)
    node.__class__ = kind  # with the same memory layout
    own["was_deferred"] = own.pop("deferred")
    own["body"] = found
    return found


def parse(text: str) -> ast.Module:
    """Parse a file.

    Raises:
        SyntaxError: the text is not valid Python. An error in a deferred body is raised on access to the body.
    """
    tree = _tree(text)
    if _ANNOTATED.search(text):
        for function in functions(tree.body):
            if text_of(function) is None:
                drop_annotations(function)
    return tree


def _tree(text: str) -> ast.Module:
    try:
        bodies = list(_bodies(text, code_of(text)))
        if bodies:
            return _parsed(text, bodies)
    except (UncertainError, SyntaxError):
        pass
    return parse_module(text)


def code_of(text: str) -> str:
    """Return a text of the same length in which comments are blank, and strings are a quotation mark and blanks.

    Raises:
        UncertainError: a string may contain other strings.
    """
    return _TEXT.sub(_blank, text)


def _blank(match: re.Match[str]) -> str:
    found = match[0]
    if found[0] == "#":
        return " " * len(found)
    if "{" in found and found.count("{") != found.count("}"):
        start = match.start()
        if _OF_FORMATTED.search(match.string[max(0, start - 2) : start]):
            raise UncertainError
    lines = found.count("\n")
    return '"' + "\n" * lines + " " * (len(found) - 1 - lines)


def _bodies(text: str, code: str) -> Iterator[_Body]:
    """Yield the bodies to be deferred, in order."""
    if "\t" in code or "\f" in code:  # columns cannot be derived from offsets
        raise UncertainError
    line, counted = 1, 0
    match = _FUNCTION.search(code)
    while match is not None:
        signature = _signature_end(code, match.end())
        start = code.find("\n", signature) + 1
        stop = start
        if start and code[signature:start].isspace():  # otherwise the body is on the same line
            stop = _end(code, start, len(match[1]))
            if stop - start >= _SHORTEST:
                last = _last_token(text, code, start, stop)
                column = len(text[text.rfind("\n", 0, last) + 1 : last].encode())
                if column > len(match[1]) + 1:
                    line += text.count("\n", counted, start)
                    counted = start
                    yield _Body(text, start, last, column, line)
        match = _FUNCTION.search(code, max(stop - 1, match.end()))


def _signature_end(code: str, start: int) -> int:
    """Return the offset after the colon of a signature."""
    depth = 0
    for match in _SIGNATURE.finditer(code, start):
        if match[0] in "([{":
            depth += 1
        elif match[0] != ":":
            depth -= 1
        elif not depth:
            return match.end()
    raise UncertainError


def _end(code: str, start: int, indent: int) -> int:
    """Return the offset of the line after a body: the next line that is indented no more than the function."""
    lines, at = _lines_indented(indent), start - 1
    while True:
        match = lines.search(code, at)
        stop = match.start() + 1 if match is not None else len(code)
        if _is_whole(code, start, stop):
            return stop
        if match is None:
            raise UncertainError
        at = match.end()


@cache
def _lines_indented(most: int) -> re.Pattern[str]:
    return re.compile(rf"\n {{0,{most}}}(?=\S)")


def _is_whole(code: str, start: int, stop: int) -> bool:
    """Return whether all brackets are closed and the last line is not continued."""
    are_closed = all(code.count(a, start, stop) == code.count(b, start, stop) for a, b in ("()", "[]", "{}"))
    return are_closed and not code.endswith("\\", start, stop - 1)


def _last_token(text: str, code: str, start: int, stop: int) -> int:
    """Return the offset after the last token of a body."""
    last = start + len(code[start:stop].rstrip())
    if code[last - 1] == "\\":  # an empty line continues the last one
        raise UncertainError
    string = _TEXT.match(text, last - 1) if code[last - 1] == '"' else None
    return string.end() if string is not None else last


def _parsed(text: str, bodies: list[_Body]) -> ast.Module:
    """Parse a text in which each body is replaced by a number at the position of its last token."""
    parts: list[str] = []
    at = 0
    for body in bodies:
        lines = text.count("\n", body.start, body.stop)
        parts += [text[at : body.start], "\n" * lines, " " * (body.column - 1), "0"]
        at = body.stop
    tree = parse_module("".join((*parts, text[at:])))
    waiting = {body.last_line: body for body in bodies}
    for function in functions(tree.body):
        line = function.body[0].lineno
        if line in waiting:
            del function.__dict__["body"]
            function.__dict__["deferred"] = waiting.pop(line)
            function.__class__ = KINDS[function.__class__]
    if waiting:
        raise UncertainError
    return tree


def functions(body: list[ast.stmt]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield the functions in some statements that are not nested in another function."""
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            yield statement
        else:
            yield from functions(branches(statement))
