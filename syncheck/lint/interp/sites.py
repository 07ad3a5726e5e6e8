"""Call sites of a program that is only read: nodes of its syntax tree."""

import ast
from functools import cached_property

from syncheck.findings import Frame, Place
from syncheck.hb.ids import SiteId
from syncheck.instrument.naming import target_in
from syncheck.rules.model import Rule
from syncheck.sanitizer.monitor import SourceLine
from syncheck.source.scopes import Scopes

_CONTEXT_LINES = 2
UNKNOWN_PLACE = Place(Frame("<unknown>", 0))


class Bindings:
    """The statements of a file that bind names, by their lines."""

    def __init__(self, tree: ast.Module, source: str) -> None:
        self._tree = tree
        self._source = source

    @cached_property
    def scopes(self) -> Scopes:
        """Which names are visible where."""
        return Scopes(self._tree, self._source)

    @cached_property
    def _by_line(self) -> dict[int, list[ast.AST]]:
        found: dict[int, list[ast.AST]] = {}
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr | ast.Delete):
                _add(found, node, node.lineno, node.end_lineno)
            elif isinstance(node, ast.withitem):
                _add(found, node, node.context_expr.lineno, node.context_expr.end_lineno)
        return found

    def target(self, line: int, column: int) -> str:
        """Return the target of what is made at a position; "" where nothing is bound."""
        return target_in(self._by_line.get(line, ()), line, column)


class Places:
    """Gives nodes their numbers, and converts them to places.

    Args:
        path: the file, as shown.
        lines: its lines, without their ends.
        bindings: what its names are bound by.

    Attributes:
        callers: call site -> the calls that led to it when something was found there, each with its function, the
            innermost first.
        ignored_now: the rules that a `syncheck.ignore` block ignores where the program is.
    """

    def __init__(self, path: str, lines: list[str], bindings: "Bindings") -> None:
        self.path = path
        self._lines = lines
        self._bindings = bindings
        self.callers: dict[SiteId, tuple[tuple[ast.AST, str], ...]] = {}
        self.ignored_now: frozenset[str] = frozenset()
        self._numbers: dict[tuple[int, frozenset[str]], SiteId] = {}
        self.nodes: list[ast.AST] = []
        self._functions: list[str] = []
        self._ignored: list[frozenset[str]] = []

    def id_of(self, node: ast.AST, function: str = "") -> SiteId:
        """Return the call site of a node, from 1."""
        key = (id(node), self.ignored_now)
        known = self._numbers.get(key)
        if known is None:
            self.nodes.append(node)
            self._functions.append(function)
            self._ignored.append(self.ignored_now)
            known = self._numbers[key] = SiteId(len(self.nodes))
        return known

    def place(self, site: SiteId) -> Place:
        """See `Sites`."""
        if not site:
            return UNKNOWN_PLACE
        line, column, end_line, end_column = span(self.nodes[site - 1])
        source = self._lines[line - 1] if line <= len(self._lines) else ""
        frame = Frame(
            self.path, line, _column(source, column), end_line, self._end(end_line, end_column),
            self._functions[site - 1] or "<module>", source,
        )  # fmt: skip
        first, last = max(1, line - _CONTEXT_LINES), min(end_line, line + 4) + _CONTEXT_LINES
        excerpt = tuple((n, self._lines[n - 1]) for n in range(first, min(last, len(self._lines)) + 1))
        return Place(frame, "", excerpt)

    def lines_of(self, site: SiteId) -> tuple[SourceLine, ...]:
        """See `Sites`."""
        if not site:
            return (SourceLine(UNKNOWN_PLACE.frame.path, 0),)
        own = self._source_line(self.nodes[site - 1], self._functions[site - 1])
        return (own, *(self._source_line(node, function) for node, function in self.callers.get(site, ())))

    def _source_line(self, node: ast.AST, function: str) -> SourceLine:
        line, column, _, _ = span(node)
        source = self._lines[line - 1] if line <= len(self._lines) else ""
        return SourceLine(self.path, line, _column(source, column), function or "<module>", self._bindings.scopes)

    def _end(self, line: int, offset: int) -> int:
        return _column(self._lines[line - 1] if line <= len(self._lines) else "", offset)

    def bound(self, site: SiteId) -> str:
        """See `Sites`."""
        if not site:
            return ""
        line, column, _, _ = span(self.nodes[site - 1])
        return self._bindings.target(line, column)

    def ignored(self, site: SiteId, rule: Rule) -> bool:
        """See `Sites`."""
        return rule.code in self.ignored_codes(site)

    def ignored_codes(self, site: SiteId) -> list[str]:
        """See `Sites`."""
        return sorted(self._ignored[site - 1]) if site else []


def _add(found: dict[int, list[ast.AST]], node: ast.AST, first: int, last: int | None) -> None:
    for line in range(first, (last or first) + 1):
        found.setdefault(line, []).append(node)


def span(node: ast.AST) -> tuple[int, int, int, int]:
    """Return (line, column, last line, end column) of a node; a method call begins at the method's own line.

    Source:
        CPython, Python/compile.c, `update_start_location_to_match_attr`.
    """
    line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
    end_line, end_column = getattr(node, "end_lineno", None) or line, getattr(node, "end_col_offset", None) or column
    function = getattr(node, "func", None)
    if isinstance(function, ast.Attribute) and function.value.end_lineno != function.end_lineno:
        line = function.end_lineno or line
        column = (function.end_col_offset or 0) - len(function.attr)
    return line, column, end_line, end_column


def _column(source: str, offset: int) -> int:
    """Turn a UTF-8 offset from 0 into a column in characters from 1."""
    if source.isascii():
        return offset + 1
    return len(source.encode()[:offset].decode(errors="replace")) + 1
