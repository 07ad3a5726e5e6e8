"""Editable documents: Python files, and the code cells of notebooks as one Python text, with their serialization."""

import json
import re
from dataclasses import dataclass, field
from typing import Any, Protocol

from syncheck.findings import Finding
from syncheck.lint import cells, files, locations
from syncheck.lint.engine import relevance
from syncheck.system import files as disk

_CELL = "# %% cell "
"""Prefix of the line that begins a cell in a notebook's text."""
_BYTE_ORDER_MARK = "\ufeff"
_STANDS_FOR = re.compile(r"  # %% syncheck line (\d+)")
"""The comment on the stand-in for a line of a notebook that is not Python."""


class Document(Protocol):
    """A file that can be edited."""

    @property
    def text(self) -> str:
        """The text as Python, with its original line endings."""
        ...

    def shown(self, text: str) -> str:
        """Convert an edited text to its display form."""
        ...

    def data(self, text: str) -> bytes:
        """Return the file's content for an edited text."""
        ...

    def placed(self, finding: Finding, path: str, text: str) -> Finding:
        """Convert a finding in an edited text to the form that the linter reports."""
        ...


def read(path: str) -> Document | None:
    """Read a file that can be edited; return None for other files, and for those that cannot have findings."""
    try:
        return parse(path, disk.read(path))
    except OSError:
        return None


def parse(path: str, data: bytes) -> Document | None:
    """Return a file's content as a document; see `read`."""
    try:
        if not relevance(path, data)[0]:
            return None
        if path.endswith(".ipynb"):
            return Notebook.of(data.decode("utf-8"))
        encoding = files.encoding_of(data)  # for a file with a byte order mark, an encoding that writes it
        return PythonFile(data.decode(encoding), encoding)
    except (SyntaxError, ValueError, KeyError, TypeError, RecursionError):
        return None


@dataclass(frozen=True, slots=True)
class PythonFile:
    """A Python file."""

    text: str
    encoding: str

    def shown(self, text: str) -> str:
        """See `Document`."""
        return text

    def data(self, text: str) -> bytes:
        """See `Document`."""
        return text.encode(self.encoding)

    def placed(self, finding: Finding, path: str, text: str) -> Finding:
        """See `Document`."""
        del path, text
        return finding


@dataclass(slots=True)
class Notebook:
    """A notebook: the text of its code cells, each below a line that identifies it.

    Attributes:
        content: the file's content, without a byte order mark.
        text: the cells as Python. Lines that are not Python (`%matplotlib inline`) are replaced.
    """

    content: str
    text: str = ""
    _mark: str = ""
    _replaced: list[cells.Line] = field(default_factory=list)

    @classmethod
    def of(cls, content: str) -> "Notebook":
        """Read a notebook.

        Raises:
            ValueError, KeyError, TypeError: the content is not a notebook.
        """
        text = content.removeprefix(_BYTE_ORDER_MARK)
        notebook = cls(text, _mark=content[: len(content) - len(text)])
        for number, cell in _code_cells(json.loads(text)):
            notebook.text += f"{_CELL}{number}\n" + "".join(map(notebook._line, cells.lines_of(_source(cell))))
        return notebook

    def _line(self, line: cells.Line) -> str:
        if line.python.startswith(_CELL):  # a comment of the notebook itself
            line = cells.Line(line.written, "#", "")
        if not line.is_replaced:
            return f"{line.python}\n"
        self._replaced.append(line)
        return f"{line.python}  # %% syncheck line {len(self._replaced) - 1}\n"

    def shown(self, text: str) -> str:
        """See `Document`."""
        return "".join(map(self._original, files.lines_of(text)))

    def _original(self, line: str) -> str:
        match = _STANDS_FOR.search(line)
        if match is None:
            return line
        known = self._replaced[int(match[1])]
        return known.beginning + _STANDS_FOR.sub("", line).lstrip().removeprefix(known.stand_in.lstrip())

    def data(self, text: str) -> bytes:
        """See `Document`."""
        document = json.loads(self.content)
        parts = map(self.shown, re.split(rf"(?m)^{re.escape(_CELL)}\d+\n", text)[1:])
        for (_, cell), part in zip(_code_cells(document), parts, strict=True):
            before = _source(cell)
            if part.removesuffix("\n") != "\n".join(cells.text_lines(before)):
                changed = part if before.endswith("\n") else part.removesuffix("\n")
                cell["source"] = changed if isinstance(cell["source"], str) else changed.splitlines(keepends=True)
        return self._written(document).encode("utf-8", "surrogatepass")

    def _written(self, document: Any) -> str:
        """Return a notebook as a text in the style of this file."""
        indent = re.search(r"\n([ \t]+)\"", self.content)
        written = json.dumps(document, indent=indent[1] if indent else None, ensure_ascii=self.content.isascii())
        written += "\n" if self.content.endswith("\n") else ""
        return self._mark + (written.replace("\n", "\r\n") if "\r\n" in self.content else written)

    def placed(self, finding: Finding, path: str, text: str) -> Finding:
        """See `Document`."""
        return locations.in_cells(finding, path, _starts(text), self._lines_replaced(text))

    def _lines_replaced(self, text: str) -> dict[int, cells.Line]:
        found = ((n, _STANDS_FOR.search(line)) for n, line in enumerate(files.lines_of(text), 1))
        return {n: self._replaced[int(match[1])] for n, match in found if match is not None}


def _starts(text: str) -> tuple[tuple[int, int], ...]:
    """Return the first line and the number of each cell of a notebook's text."""
    lines = enumerate(files.lines_of(text), 1)
    return tuple((n + 1, int(line.removeprefix(_CELL))) for n, line in lines if line.startswith(_CELL))


def _code_cells(document: Any) -> list[tuple[int, dict[str, Any]]]:
    return [(n, cell) for n, cell in enumerate(document["cells"], 1) if cell["cell_type"] == "code"]


def _source(cell: dict[str, Any]) -> str:
    source = cell["source"]
    return source if isinstance(source, str) else "".join(source)
