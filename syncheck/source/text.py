"""Source text of the program's files, and its syntax trees."""

import ast
import linecache
import warnings

GENERATED = "<string>"
"""File name of code compiled from a string, such as with `exec`."""


def source_lines(filename: str) -> list[str]:
    """Return the lines of a file with their line endings; none if it cannot be read.

    Code compiled from a string has no source. Python 3.13 would return that of `python -c` for any such code.

    Source:
        Lib/linecache.py of Python 3.13, `_register_code`; 3.14 registers code objects instead of names.
    """
    return [] if filename == GENERATED else linecache.getlines(filename)


def source_line(filename: str, number: int) -> str:
    """Return a line of a file, from 1, without its line ending; "" if there is none."""
    lines = source_lines(filename)
    return lines[number - 1].rstrip("\r\n") if 1 <= number <= len(lines) else ""


def source_text(filename: str) -> str:
    """Return the text of a file; "" if it cannot be read."""
    return "".join(source_lines(filename))


def parse_module(text: str) -> ast.Module:
    """Return the syntax tree of a file's text, without warnings about it: Python itself shows them to the program.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: the text cannot be parsed.
    """
    with warnings.catch_warnings(action="ignore"):
        return ast.parse(text)


def parse_expression(text: str) -> ast.expr:
    """Return the syntax tree of an expression; see `parse_module`."""
    with warnings.catch_warnings(action="ignore"):
        return ast.parse(text, mode="eval").body
