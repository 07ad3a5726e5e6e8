"""Finds statements that order work, and deletes them from sources one at a time."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CALLS = frozenset("wait_stream wait_event wait synchronize record_stream record".split())


@dataclass(frozen=True)
class Deletion:
    """A statement to delete.

    Attributes:
        columns: its start in its first line and its end in its last line, in bytes, as counted by `ast`.
        call: the last component of the called name.
    """

    line: int
    end: int
    columns: tuple[int, int]
    text: str
    call: str


def deletions(source: str) -> list[Deletion]:
    """Return the statements that consist only of a call of an ordering method or function."""
    return sorted(_calls(ast.parse(source), source), key=lambda each: (each.line, each.columns))


def _calls(tree: ast.Module, source: str) -> Iterator[Deletion]:
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
            continue
        name = _last_name(node.value.func)
        if name in CALLS:
            text = " ".join((ast.get_source_segment(source, node) or "").split())
            columns = (node.col_offset, node.end_col_offset or 0)
            yield Deletion(node.lineno, node.end_lineno or node.lineno, columns, text, name)


def _last_name(called: ast.expr) -> str:
    if isinstance(called, ast.Attribute):
        return called.attr
    return called.id if isinstance(called, ast.Name) else ""


def without(source: str, deletion: Deletion) -> str:
    """Return a source with a statement replaced by `pass`. All lines keep their numbers."""
    lines = source.split("\n")
    before = lines[deletion.line - 1].encode()[: deletion.columns[0]].decode()
    after = lines[deletion.end - 1].encode()[deletion.columns[1] :].decode()
    rest = [""] * (deletion.end - deletion.line)
    return "\n".join([*lines[: deletion.line - 1], f"{before}pass{after}", *rest, *lines[deletion.end :]])


def marked(source: str, found: list[Deletion], folder: Path) -> str:
    """Return a source in which each statement, when run, creates an empty file named by its index in `found`."""
    lines = source.split("\n")
    for index, deletion in reversed([*enumerate(found)]):
        line = lines[deletion.line - 1].encode()
        column = deletion.columns[0]
        mark = f"open({str(folder / str(index))!r}, 'w').close(); "
        lines[deletion.line - 1] = (line[:column] + mark.encode() + line[column:]).decode()
    return "\n".join(lines)
