"""The definitions of a file as libcst trees. Each is parsed only when something in it was found.

A definition is a top-level statement of a file, such as a function or a class. Rules that check single functions get
the members of classes one by one, because a class can be long.

libcst preserves all comments and whitespace, but takes eleven times as long as `ast`. Therefore, `ast` serves the
semantic analysis, and libcst provides exact positions, comments and edits.
"""

import ast
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

Statement = cst.SimpleStatementLine | cst.BaseCompoundStatement
UNSUPPORTED = (cst.ParserSyntaxError, RecursionError)
"""The errors for a definition in syntax that this version of libcst does not support, or that is nested too deeply."""


@dataclass(slots=True)
class Range:
    """Lines of a file, first and last, from 1; `is_member`: in the body of a class, with its indentation."""

    first: int
    last: int
    is_member: bool = False


_HEAD = "class _:\n"
"""Precedes a member of a class, so that its indented text can be parsed unchanged."""


class Definition:
    """A top-level statement of a file or of a class, or several that share a line.

    Args:
        lines: its lines.
        text: its source.
    """

    def __init__(self, lines: Range, text: str) -> None:
        self.lines = lines
        self.text = text
        self._head = _HEAD if lines.is_member else ""

    @cached_property
    def wrapper(self) -> MetadataWrapper:
        """The tree, with metadata.

        Raises:
            libcst.ParserSyntaxError, RecursionError: see `UNSUPPORTED`.
        """
        tree = cst.parse_module(self._head + self.text)
        return MetadataWrapper(tree, unsafe_skip_copy=True)  # a parsed tree has each node once

    @property
    def is_preserved(self) -> bool:
        """Whether libcst writes the source as it was read. It drops a carriage return that ends the text."""
        return self.wrapper.module.code == self._head + self.text

    @cached_property
    def _positions(self) -> dict[cst.CSTNode, CodeRange]:
        return dict(self.wrapper.resolve(PositionProvider))

    def position(self, node: cst.CSTNode) -> CodeRange:
        """Return the position of a node, in lines of the file from 1 and columns from 0."""
        own = self._positions[node]
        offset = self.lines.first - 1 - bool(self._head)
        start = (own.start.line + offset, own.start.column)
        return CodeRange(start, (own.end.line + offset, own.end.column))

    def span(self, node: cst.CSTNode) -> tuple[int, int, int, int]:
        """Return (line, column, last line, end column) of a node. A method call begins at its method's name.

        Source:
            CPython, Python/compile.c, `update_start_location_to_match_attr`.
        """
        where = self.position(node)
        start = where.start
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            owner, name = self.position(node.func.value), self.position(node.func.attr)
            if owner.end.line != name.start.line:
                start = name.start
        return start.line, start.column, where.end.line, where.end.column

    def function_at(self, line: int) -> str:
        """Return the name of the innermost function that contains a line; "" if there is none."""
        name, innermost = "", 0
        for node in self._positions:
            if isinstance(node, cst.FunctionDef):
                where = self.position(node)
                if innermost <= where.start.line <= line <= where.end.line:
                    name, innermost = node.name.value, where.start.line
        return name

    def node_at(self, line: int, column: int, end_line: int, end_column: int) -> cst.CSTNode | None:
        """Return the outermost expression or simple statement at a position; None if there is none.

        Columns count from 0.
        """
        wanted = CodeRange((line, column), (end_line, end_column))
        found = (node for node in self._positions if isinstance(node, cst.BaseExpression | cst.BaseSmallStatement))
        return next((node for node in found if self.position(node) == wanted), None)

    def statement_at(self, line: int) -> Statement | None:
        """Return the innermost statement that contains a line."""
        chosen: Statement | None = None
        for node in self._positions:
            if isinstance(node, Statement):
                where = self.position(node)
                if where.start.line <= line <= where.end.line and (
                    chosen is None or self.position(chosen).start.line <= where.start.line
                ):
                    chosen = node
        return chosen


class Definitions:
    """All definitions of a file.

    Args:
        tree: the file.
        lines: its lines, with line endings.
    """

    def __init__(self, tree: ast.Module, lines: list[str]) -> None:
        self._lines = lines
        self._tree = tree
        self._ranges = list(_ranges(tree.body))
        self._known: dict[int, Definition] = {}

    def __iter__(self) -> Iterator[Definition]:
        return map(self._of, self._ranges)

    def near(self, lines: Sequence[int], *, with_whole_classes: bool) -> Iterator[Definition]:
        """Yield the definitions that contain one of some lines.

        Args:
            lines: the line numbers, in order.
            with_whole_classes: yield whole classes, rather than their members (including those of nested classes).
        """
        for part in self._ranges if with_whole_classes else _members(self._tree.body):
            first = bisect_left(lines, part.first)
            if first < len(lines) and lines[first] <= part.last:
                yield self._of(part) if with_whole_classes else Definition(part, self._text(part))

    def at(self, line: int) -> Definition | None:
        """Return the definition that contains a line; None for a line between definitions."""
        found = next((part for part in self._ranges if part.first <= line <= part.last), None)
        return self._of(found) if found is not None else None

    def statement_lines(self, line: int) -> tuple[int, int]:
        """Return the first and last line of the statement at a line; for a compound statement, those of its header."""
        definition = self.at(line)
        try:
            statement = definition.statement_at(line) if definition is not None else None
        except UNSUPPORTED:
            statement = None
        if definition is None or statement is None:
            return line, line
        where = definition.position(statement)
        header = _end_of_header(statement)
        end = definition.position(header).start if header is not None else where.end
        return where.start.line, max(line, end.line)

    def _of(self, found: Range) -> Definition:
        if found.first not in self._known:
            self._known[found.first] = Definition(found, self._text(found))
        return self._known[found.first]

    def _text(self, part: Range) -> str:
        return "".join(self._lines[part.first - 1 : part.last])


def _end_of_header(statement: Statement) -> cst.TrailingWhitespace | None:
    """Return what follows the colon of a compound statement; None if it has no block below its header."""
    if isinstance(statement, cst.Match):
        return statement.whitespace_after_colon
    body = getattr(statement, "body", None)
    return body.header if isinstance(body, cst.IndentedBlock) else None


def _ranges(body: list[ast.stmt], *, is_member: bool = False) -> Iterator[Range]:
    """Yield the line ranges of statements. Statements that share a line share a range."""
    current: Range | None = None
    for statement in body:
        decorators = getattr(statement, "decorator_list", ())
        first = min([statement.lineno, *(decorator.lineno for decorator in decorators)])
        last = statement.end_lineno or statement.lineno
        if current is not None and first <= current.last:
            current.last = max(current.last, last)
            continue
        if current is not None:
            yield current
        current = Range(first, last, is_member)
    if current is not None:
        yield current


def _members(body: list[ast.stmt], *, is_member: bool = False) -> Iterator[Range]:
    """Yield the line ranges of statements, replacing classes by their members."""
    for statement in body:
        if isinstance(statement, ast.ClassDef) and statement.body[0].lineno > statement.lineno:
            yield from _members(statement.body, is_member=True)
        else:
            yield from _ranges([statement], is_member=is_member)
