"""A file to lint: its text, its `ast` tree and, where needed, its definitions as libcst trees."""

import ast
import re
from functools import cached_property
from typing import TYPE_CHECKING

from syncheck.findings import Frame, Location
from syncheck.lint import deferred
from syncheck.lint.files import lines_of
from syncheck.lint.nodes import statements, walk
from syncheck.sanitizer.device_names import CUDA
from syncheck.source.scopes import Scopes
from syncheck.source.targets import passed_on_in, target_in

if TYPE_CHECKING:
    from syncheck.lint.definitions import Definitions

_CONTEXT_LINES = 2
_ANY_DEVICE = "accelerator"
_OTHERS = ("xpu", "npu", "hpu", "musa", "mtia", "accelerator")
_ASYNCHRONOUS = ("async_op", "irecv", "isend")
_RING = re.compile(r"[\w)\]]\s*%\s*(?:len\(|self\.|(?:n|num)_|\w*(?:slots?|buf(?:fer)?s?|depth)\b)")
"""The index of the next slot of a ring."""
_OTHER_DEVICES = re.compile(rf"""(?:\btorch(?:\.| import )|['"])({"|".join(_OTHERS)})\b""")


_GIVEN_TO_CUDA = re.compile(
    r"torch\.(?:cuda\.(?:Stream|current_stream|default_stream|set_device|synchronize|device|current_blas_handle|mem_get_info)"
    r"|Stream|Event|accelerator\.(?:current_stream|synchronize|set_device_index|device_index))"
    r"\(\s*(?:device=)?((?:\w+\.)*[A-Za-z_]\w*)\s*\)"
)


class Bindings:
    """The statements of a file that bind names, by line."""

    def __init__(self, tree: ast.Module, source: str) -> None:
        self._tree = tree
        self._source = source
        # statement -> its binding nodes, and its calls and lambdas
        self._nodes: dict[ast.AST, tuple[list[ast.AST], list[ast.AST]]] = {}

    @cached_property
    def scopes(self) -> Scopes | None:
        """The scopes of the file: which names are visible where; None if it is nested too deeply."""
        try:
            return Scopes(self._tree, self._source)
        except RecursionError:
            return None

    def target(self, line: int, column: int) -> str:
        """Return the target that the value created at a position is bound to; "" if there is none."""
        binding, _ = self._at(line)
        return target_in(binding, line, column)

    def is_passed_on(self, line: int, column: int) -> bool:
        """Return whether the value created at a position is passed to a call, or created in a lambda."""
        _, calls = self._at(line)
        return passed_on_in(calls, line, column)

    def _at(self, line: int) -> tuple[list[ast.AST], list[ast.AST]]:
        """Return the binding nodes, and the calls and lambdas, of the statements on a line."""
        binding: list[ast.AST] = []
        calls: list[ast.AST] = []
        for part in _at(self._tree, line):
            if part not in self._nodes:
                nodes = walk(part)
                in_part: list[ast.AST] = [node for node in nodes if isinstance(node, ast.Call | ast.Lambda)]
                self._nodes[part] = list(filter(_binds, nodes)), in_part
            binding += self._nodes[part][0]
            calls += self._nodes[part][1]
        return binding, calls


class SourceFile:
    """One Python file.

    Attributes:
        path: the path as displayed.
        text: the source text.
        tree: the syntax tree; see `syncheck.lint.deferred`.
        bindings: the statements that bind names.

    Args:
        path: the path as displayed.
        text: the source text.

    Raises:
        SyntaxError: the text is not valid Python.
    """

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        self.tree = deferred.parse(text)
        self.bindings = Bindings(self.tree, text)

    def forget(self) -> None:
        """Empty the tree once it is no longer needed: a cycle that holds part of it would keep all of it alive."""
        for function in deferred.functions(self.tree.body):
            if deferred.text_of(function) is None:
                function.body = []
        self.tree.__dict__.clear()  # with the results cached on it
        self.tree.body = []

    @cached_property
    def lines_with_ends(self) -> list[str]:
        """The lines, each with its line ending."""
        return lines_of(self.text)

    @cached_property
    def lines(self) -> list[str]:
        """The lines without their line endings."""
        return [line.rstrip("\r\n") for line in self.lines_with_ends]

    @cached_property
    def device_type(self) -> str:
        """The type of the accelerator that the file uses, such as "xpu"; "cuda" unless it mentions only others."""
        if "cuda" in self.text or not any(name in self.text for name in _OTHERS):
            return CUDA
        others: set[str] = set(_OTHER_DEVICES.findall(self.text))
        if not others:
            return CUDA
        return min(others - {_ANY_DEVICE} or others)

    @cached_property
    def gpu_names(self) -> frozenset[str]:
        """The last names of the devices passed to functions about GPUs in this file: `self.device` gives "device"."""
        return frozenset(name.rpartition(".")[2] for name in _GIVEN_TO_CUDA.findall(self.text))

    @cached_property
    def enters_streams(self) -> bool:
        """Whether the file makes streams current, judging by its text."""
        return "stream(" in self.text or "StreamContext(" in self.text

    @cached_property
    def has_asynchronous_collectives(self) -> bool:
        """Whether the file starts collectives that it waits for later, judging by its text."""
        return may_start_collectives(self.text)

    @cached_property
    def has_ring(self) -> bool:
        """Whether the file uses the slots of a ring in turn, judging by its text."""
        return "%" in self.text and _RING.search(self.text) is not None

    @cached_property
    def definitions(self) -> "Definitions":
        """The top-level statements as libcst trees."""
        from syncheck.lint.definitions import Definitions  # noqa: PLC0415  libcst: only for files with a candidate

        return Definitions(self.tree, self.lines_with_ends)

    @cached_property
    def imports(self) -> dict[str, str]:
        """The names bound by imports anywhere in the file: local name -> full name."""
        found: dict[str, str] = {}
        for node in statements(self.tree, lambda node: "import" in (deferred.text_of(node) or "import")):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    name = alias.name if alias.asname else alias.name.partition(".")[0]
                    found[alias.asname or name] = name
            elif isinstance(node, ast.ImportFrom):
                module = "." * node.level + (node.module or "")
                prefix = module if module.endswith(".") or not module else f"{module}."
                found |= {alias.asname or alias.name: prefix + alias.name for alias in node.names}
        return found

    def location(self, line: int, column: int, end_line: int, end_column: int, function: str) -> Location:
        """Return a location in the file with the source around it.

        Args:
            line: the first line, from 1.
            column: the first column in characters, from 1.
            end_line: the last line.
            end_column: the column after the end, from 1.
            function: the name of the enclosing function; "" for none.
        """
        source = self.lines[line - 1] if line <= len(self.lines) else ""
        frame = Frame(self.path, line, column, end_line, end_column, function or "<module>", source)
        first, last = max(1, line - _CONTEXT_LINES), min(end_line, line + 4) + _CONTEXT_LINES
        excerpt = tuple((n, self.lines[n - 1]) for n in range(first, min(last, len(self.lines)) + 1))
        return Location(frame, "", excerpt)


def _at(tree: ast.Module, line: int) -> list[ast.AST]:
    """Return the top-level statements at a line. A class is replaced by its members at that line, if there are any."""
    found: list[ast.AST] = []
    for statement in tree.body:
        if _is_at(statement, line):
            members = statement.body if isinstance(statement, ast.ClassDef) else []
            found += [member for member in members if _is_at(member, line)] or [statement]
    return found


def _is_at(statement: ast.stmt, line: int) -> bool:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    first = min((statement.lineno, *(decorator.lineno for decorator in decorators)))
    return first <= line <= (statement.end_lineno or statement.lineno)


def _binds(node: ast.AST) -> bool:
    return isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr | ast.Delete | ast.withitem)


def may_start_collectives(source: str) -> bool:
    """Return whether some code may start collectives that it waits for later, judging by its text."""
    return any(word in source for word in _ASYNCHRONOUS)
