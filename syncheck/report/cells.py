"""Findings in notebooks, for formats whose locations must be lines of files."""

import re
from dataclasses import replace

from syncheck.findings import Finding, Location, Report

_CELL = re.compile(r"(?P<file>.+\.ipynb):(?P<cell>cell \d+)")


def in_files(report: Report) -> Report:
    """Return a report in which each finding in a cell is at the first line of its notebook.

    The line in the file is unknown, since a notebook stores its cells as JSON. The message begins with the cell and the
    line in it.
    """
    return replace(report, findings=tuple(map(_in_file, report.findings)))


def _in_file(finding: Finding) -> Finding:
    location, where = _placed(finding.location)
    related = tuple(_with_place(other) for other in finding.related)
    return replace(finding, location=location, related=related, message=where + finding.message)


def _with_place(location: Location) -> Location:
    placed, where = _placed(location)
    return replace(placed, message=where + location.message)


def _placed(location: Location) -> tuple[Location, str]:
    """Return a location in a file, and the words for the place in it."""
    frame = location.frame
    match = _CELL.fullmatch(frame.path)
    if match is None:
        return location, ""
    file = replace(frame, path=match["file"], line=1, column=0, end_line=1, end_column=0)
    return replace(location, frame=file), f"{match['cell']}, line {frame.line}: "
