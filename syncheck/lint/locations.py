"""Locations of findings: their lines; the same locations under another path or in the cells of a notebook."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from syncheck.findings import UNKNOWN, Edit, Finding, Frame, Location
from syncheck.lint.cells import Line
from syncheck.rules.model import Family, Rule

_CELL = ":cell "
_NONE: Mapping[int, Line] = {}
_LINE = re.compile(r"`[^`]*`|\bline (?P<line>\d+)\b")
"""Code, or a mention of a line number."""


def lines_of(findings: Iterable[Finding], families: Collection[Family] = tuple(Family)) -> set[int]:
    """Return the lines of all locations of the findings of some families."""
    about = [finding for finding in findings if finding.rule.family in families]
    return {location.frame.line for finding in about for location in finding.locations}


def main_lines_of(findings: Iterable[Finding]) -> set[int]:
    """Return the lines of the main locations of some findings."""
    return {finding.location.frame.line for finding in findings}


def lines_about(findings: Iterable[Finding], rule: Rule) -> set[int]:
    """Return the lines of the main locations of the findings of a rule."""
    return main_lines_of(finding for finding in findings if finding.rule == rule)


def in_cells(
    finding: Finding, path: str, cells: tuple[tuple[int, int], ...], replaced: Mapping[int, Line] = _NONE
) -> Finding:
    """Return a finding with its locations given as cell and line.

    Args:
        finding: a finding in the notebook's source, which is its code cells in sequence.
        path: the path of the notebook.
        cells: (first line in the source, number of the cell) in order.
        replaced: line in the source -> the line of a cell that it stands for.
    """

    def cell_of(line: int) -> tuple[int, int]:
        return max(cell for cell in cells if cell[0] <= line)

    def moved(location: Location) -> Location:
        if location == UNKNOWN:
            return location
        first, number = cell_of(location.frame.line)
        frame = _as_written(location.frame, replaced)
        there = replace(
            frame, path=f"{path}{_CELL}{number}", line=frame.line - first + 1, end_line=frame.end_line - first + 1
        )
        shown = ((line, replaced[line].written if line in replaced else text) for line, text in location.excerpt)
        excerpt = tuple((line - first + 1, text) for line, text in shown if cell_of(line)[0] == first)
        return Location(there, location.message, excerpt)

    def moved_edit(edit: Edit) -> Edit:
        first, number = cell_of(edit.line)
        column = _column(edit.column, edit.line, replaced)
        return replace(edit, path=f"{path}{_CELL}{number}", line=edit.line - first + 1, column=column)

    own = cell_of(finding.location.frame.line)

    def named(match: re.Match[str]) -> str:
        if match["line"] is None:
            return match[0]  # code
        line = int(match["line"])
        first, number = cell_of(line)
        return f"line {line - first + 1}" + ("" if first == own[0] else f" of cell {number}")

    there = _with_locations(finding, moved, moved_edit)
    return replace(there, message=_LINE.sub(named, there.message), help=_LINE.sub(named, there.help))


def _as_written(frame: Frame, replaced: Mapping[int, Line]) -> Frame:
    """Return a frame with the source and the columns of the line that its line stands for."""
    return replace(
        frame,
        column=_column(frame.column, frame.line, replaced),
        end_column=_column(frame.end_column, frame.end_line, replaced),
        source=replaced[frame.line].written if frame.line in replaced else frame.source,
    )


def _column(column: int, line: int, replaced: Mapping[int, Line]) -> int:
    return column + replaced[line].shift if column and line in replaced else column


def cell_number(path: str) -> int:
    """Return the number of the cell, from 1, in the path of a location in a notebook."""
    return int(path.rpartition(_CELL)[2])


def under(finding: Finding, path: str, new: str) -> Finding:
    """Return a finding with the path of its file replaced; paths of other files are kept."""

    def renamed(given: str) -> str:
        rest = given.removeprefix(path)
        return new + rest if given.startswith(path) and (not rest or rest.startswith(_CELL)) else given

    def moved(location: Location) -> Location:
        return replace(location, frame=replace(location.frame, path=renamed(location.frame.path)))

    if path == new:
        return finding
    return _with_locations(finding, moved, lambda edit: replace(edit, path=renamed(edit.path)))


def _with_locations(
    finding: Finding, moved: Callable[[Location], Location], moved_edit: Callable[[Edit], Edit]
) -> Finding:
    """Return a finding with its locations, and those of its fix, converted."""
    fix = finding.fix
    if fix is not None:
        fix = replace(fix, edits=tuple(map(moved_edit, fix.edits)))
    related = tuple(map(moved, finding.related))
    return replace(finding, location=moved(finding.location), related=related, fix=fix)
