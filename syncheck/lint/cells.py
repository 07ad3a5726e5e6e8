"""The code cells of a notebook as one Python text, in which lines for IPython only are replaced."""

import io
import json
import re
from typing import NamedTuple

from syncheck.source.text import parse_module


class Line(NamedTuple):
    """A line of a cell; as Python, it begins differently if IPython alone understands it.

    Attributes:
        beginning: what is replaced: the whole line, or the magic before a statement; "" if the line is Python.
        stand_in: what replaces it in Python.
        rest: what follows, both in the cell and in Python.
    """

    beginning: str
    stand_in: str
    rest: str

    @property
    def is_replaced(self) -> bool:
        """Whether the line differs in Python."""
        return self.beginning != self.stand_in

    @property
    def written(self) -> str:
        """The line as written in the notebook."""
        return self.beginning + self.rest

    @property
    def python(self) -> str:
        """The line as Python."""
        return self.stand_in + self.rest

    @property
    def shift(self) -> int:
        """How many columns further right the rest is in the notebook than in Python."""
        return len(self.beginning) - len(self.stand_in)


Cell = tuple[int, str]
"""The number of a cell, from 1, and its source."""


def code_cells(data: bytes) -> list[Cell]:
    """Return the code cells of a notebook.

    Raises:
        SyntaxError: the file is not a notebook.
    """
    try:
        cells = json.loads(data)["cells"]
        sources = [(n, cell["source"]) for n, cell in enumerate(cells, 1) if cell["cell_type"] == "code"]
        return [(n, source if isinstance(source, str) else "".join(source)) for n, source in sources]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise SyntaxError(f"it is not a notebook: {error}") from None


_PYTHON_CELLS = re.compile(r"\s*%%(capture|debug|ipytest|prun|syncheck|time|timeit)\b")
"""Cell magics that run their cell as Python, in the notebook's own process."""
_ASSIGNED = re.compile(r"(\s*[^\W\d][\w.,\[\]'\" ]*=)\s*[!%]\w.*")
_COMMAND = re.compile(r"(\s*)([!%?].*|[\w.]+\?{1,2}\s*)")
_MEASURES = {"time": "", "timeit": "nrpv", "prun": "lsTD", "lprun": "fmTDsu", "memit": "rt", "mprun": "fT"}
"""Line magics that run the rest of their line as Python -> their options that take a value."""
_MEASURED = re.compile(
    r"(\s*)(%(?:"
    + "|".join(
        rf"{name}(?:\s+(?:-[{valued or '-'}]\s*\S+|--?[a-zA-Z][\w-]*(?=\s)))*" for name, valued in _MEASURES.items()
    )
    + r")\s+)(\S.*)"
)


def lines_of(source: str) -> list[Line]:
    """Return the lines of a cell, in which no-ops stand for shell commands and magics.

    A cell in another language (`%%bash`) is replaced entirely.

    Source:
        IPython documentation, "Built-in magic commands", "IPython reference".
    """
    lines = text_lines(source)
    first = next((line for line in lines if line.strip()), "")
    if first.lstrip().startswith("%%") and not _PYTHON_CELLS.match(first):
        return [Line(line, "pass", "") for line in lines]
    found: list[Line] = []
    for before, line in zip(["", *lines], lines, strict=False):
        is_continued = before.endswith("\\") and found[-1].is_replaced
        indent = len(found[-1].stand_in) - len(found[-1].stand_in.lstrip()) if is_continued else 0
        found.append(Line(line, " " * indent + "pass", "") if is_continued else _line(line))
    return found


def text_lines(source: str) -> list[str]:
    """Return the lines of a text without their endings. Other separators, such as U+2028, end no line in Python."""
    return [line.removesuffix("\n") for line in io.StringIO(source, newline=None)]


def _line(line: str) -> Line:
    assigned = _ASSIGNED.fullmatch(line)
    if assigned is not None:
        return Line(line, f"{assigned[1]} None", "")
    command = _COMMAND.fullmatch(line)
    if command is None:
        return Line("", "", line)
    measured = _MEASURED.fullmatch(line)
    if measured is not None and _is_python(measured[3]):
        return Line(measured[1] + measured[2], measured[1], measured[3])
    return Line(line, f"{command[1]}pass", "")


def _is_python(code: str) -> bool:
    try:
        parse_module(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
