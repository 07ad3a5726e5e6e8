"""A file that is linted: its text, its `ast` tree, and its definitions as libcst trees where they are needed."""

import ast
import re
from functools import cached_property
from typing import TYPE_CHECKING

from syncheck.findings import Frame, Place
from syncheck.instrument.naming import target_in
from syncheck.lint.files import lines_of
from syncheck.lint.nodes import statements, walk
from syncheck.sanitizer.device_names import CUDA
from syncheck.source.scopes import Scopes

if TYPE_CHECKING:
    from syncheck.lint.definitions import Definitions

_CONTEXT_LINES = 2
_ANY_DEVICE = "accelerator"
_OTHERS = ("xpu", "npu", "hpu", "musa", "mtia", "accelerator")
_OTHER_DEVICES = re.compile(rf"""(?:\btorch(?:\.| import )|['"])({"|".join(_OTHERS)})\b""")


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
        for node in walk(self._tree):
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr | ast.Delete):
                _add(found, node, node.lineno, node.end_lineno)
            elif isinstance(node, ast.withitem):
                _add(found, node, node.context_expr.lineno, node.context_expr.end_lineno)
        return found

    def target(self, line: int, column: int) -> str:
        """Return the target of what is made at a position; "" where nothing is bound."""
        return target_in(self._by_line.get(line, ()), line, column)


class SourceFile:
    """One Python file.

    Attributes:
        path: as shown.
        text: its source.
        tree: its syntax tree.
        bindings: what binds its names.

    Args:
        path: as shown.
        text: its source.

    Raises:
        SyntaxError: the text is no Python.
    """

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        self.tree = ast.parse(text)
        self.bindings = Bindings(self.tree, text)

    @cached_property
    def lines_with_ends(self) -> list[str]:
        """The lines, each with its line end."""
        return lines_of(self.text)

    @cached_property
    def lines(self) -> list[str]:
        """The lines without their ends."""
        return [line.rstrip("\r\n") for line in self.lines_with_ends]

    @cached_property
    def device_type(self) -> str:
        """The only module of torch for GPUs that the file speaks of, such as "xpu"; "cuda" where it may be that."""
        if "cuda" in self.text or not any(name in self.text for name in _OTHERS):
            return CUDA
        others: set[str] = set(_OTHER_DEVICES.findall(self.text))
        if not others:
            return CUDA
        return min(others - {_ANY_DEVICE} or others)

    @cached_property
    def definitions(self) -> "Definitions":
        """The statements at the top level, as libcst trees."""
        from syncheck.lint.definitions import Definitions  # noqa: PLC0415  libcst: only for files with a candidate

        return Definitions(self.tree, self.lines_with_ends)

    @cached_property
    def imports(self) -> dict[str, str]:
        """What the names bound by `import` stand for, wherever in the file: local name -> full name."""
        found: dict[str, str] = {}
        for node in statements(self.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    name = alias.name if alias.asname else alias.name.partition(".")[0]
                    found[alias.asname or name] = name
            elif isinstance(node, ast.ImportFrom):
                module = "." * node.level + (node.module or "")
                prefix = module if module.endswith(".") or not module else f"{module}."
                found |= {alias.asname or alias.name: prefix + alias.name for alias in node.names}
        return found

    def place(self, line: int, column: int, end_line: int, end_column: int, function: str) -> Place:
        """Return a place in the file with the source around it.

        Args:
            line: the first line, from 1.
            column: its column in characters, from 1.
            end_line: the last line.
            end_column: the column after the end, from 1.
            function: the name of the function; "" for none.
        """
        source = self.lines[line - 1] if line <= len(self.lines) else ""
        frame = Frame(self.path, line, column, end_line, end_column, function or "<module>", source)
        first, last = max(1, line - _CONTEXT_LINES), min(end_line, line + 4) + _CONTEXT_LINES
        excerpt = tuple((n, self.lines[n - 1]) for n in range(first, min(last, len(self.lines)) + 1))
        return Place(frame, "", excerpt)


def _add(found: dict[int, list[ast.AST]], node: ast.AST, first: int, last: int | None) -> None:
    for line in range(first, (last or first) + 1):
        found.setdefault(line, []).append(node)
