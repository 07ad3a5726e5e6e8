"""Files and source positions: the owner of a file, and the position of an instruction in it."""

import os
import site
import sysconfig
from collections.abc import Set
from functools import cache
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType

from syncheck.findings import Frame
from syncheck.paths import display_path, name_of_file
from syncheck.source.text import source_lines

_CONTEXT_LINES = 2
PACKAGE = str(Path(__file__).resolve().parents[1]) + os.sep


def _library_roots() -> tuple[str, ...]:
    paths = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    paths.update(site.getsitepackages())
    paths.add(site.getusersitepackages())
    return tuple(os.path.realpath(path) + os.sep for path in paths if path)


_LIBRARIES = _library_roots()


@cache
def is_user_file(filename: str) -> bool:
    """Return whether a file is user code: not the standard library, an installed package or syncheck."""
    if filename.startswith("<"):
        return not filename.startswith(("<frozen", "<__array_function__", "<attrs"))
    path = os.path.realpath(filename)
    return not path.startswith((PACKAGE, *_LIBRARIES))


def position(code: CodeType, lasti: int) -> tuple[int, int, int | None, int | None]:
    """Return (line, end line, column, end column) of an instruction; columns are UTF-8 offsets from 0 or None.

    Source:
        PEP 657; `code.co_positions` has one entry per two-byte instruction.
    """
    found = next(islice(code.co_positions(), max(lasti, 0) // 2, None), (None, None, None, None))
    line = found[0] or code.co_firstlineno
    return line, found[1] or line, found[2], found[3]


def lines_of(code: CodeType, offsets: Set[int]) -> set[int]:
    """Return the lines of some instructions of a code object, in a single pass: `position` takes one for each."""
    indices = {max(lasti, 0) // 2 for lasti in offsets}
    return {line or code.co_firstlineno for index, (line, *_) in enumerate(code.co_positions()) if index in indices}


def line_of_frame(frame: FrameType) -> tuple[str, int, str]:
    """Return (path as shown, line, function) of a frame."""
    code = frame.f_code
    return shown_path(code.co_filename), frame.f_lineno or code.co_firstlineno, code.co_qualname


def shown_path(filename: str) -> str:
    """Return a path as shown to the user, with "/": relative to the working directory or to the package root."""
    if filename.startswith("<"):
        return name_of_file(filename) or filename
    return _path_in_library(filename) or display_path(filename)


@cache
def _path_in_library(filename: str) -> str:
    """Return the path of a library file relative to the package root; "" for any other file."""
    if is_user_file(filename) or filename.startswith(PACKAGE):
        return ""
    path = os.path.realpath(filename)
    root = max((library for library in _LIBRARIES if path.startswith(library)), key=len, default="")
    return path[len(root) :].replace(os.sep, "/")


def column_of(source: str, offset: int | None) -> int:
    """Convert a UTF-8 offset from 0 to a column in characters from 1; 0 if unknown."""
    if offset is None:
        return 0
    return len(source.encode()[:offset].decode(errors="replace")) + 1


def excerpt(filename: str, frame: Frame) -> tuple[tuple[int, str], ...]:
    """Return the source lines around a frame's expression, with their numbers."""
    last = min(frame.end_line, frame.line + 4)
    numbers = range(max(1, frame.line - _CONTEXT_LINES), last + _CONTEXT_LINES + 1)
    lines = source_lines(filename)
    return tuple((number, lines[number - 1].rstrip("\r\n")) for number in numbers if number <= len(lines))
