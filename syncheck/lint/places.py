"""Where findings are: the same findings under another path, or in the cells of a notebook."""

from collections.abc import Callable
from dataclasses import replace

from syncheck.findings import Edit, Finding, Place

_CELL = ":cell "


def in_cells(finding: Finding, path: str, cells: tuple[tuple[int, int], ...]) -> Finding:
    """Return a finding whose places are given as cell and line.

    Args:
        finding: in the notebook's source, the code cells one after the other.
        path: of the notebook.
        cells: (first line in the source, number of the cell) in order.
    """

    def moved(place: Place) -> Place:
        first, number = max(cell for cell in cells if cell[0] <= place.frame.line)
        frame = place.frame
        there = replace(
            frame, path=f"{path}{_CELL}{number}", line=frame.line - first + 1, end_line=frame.end_line - first + 1
        )
        excerpt = tuple((line - first + 1, text) for line, text in place.excerpt if line >= first)
        return Place(there, place.message, excerpt)

    def moved_edit(edit: Edit) -> Edit:
        first, number = max(cell for cell in cells if cell[0] <= edit.line)
        return replace(edit, path=f"{path}{_CELL}{number}", line=edit.line - first + 1)

    return _with_places(finding, moved, moved_edit)


def under(finding: Finding, path: str, new: str) -> Finding:
    """Return a finding in a file as that of the same file under another path; other files stay as they are."""

    def renamed(given: str) -> str:
        rest = given.removeprefix(path)
        return new + rest if given.startswith(path) and (not rest or rest.startswith(_CELL)) else given

    def moved(place: Place) -> Place:
        return replace(place, frame=replace(place.frame, path=renamed(place.frame.path)))

    if path == new:
        return finding
    return _with_places(finding, moved, lambda edit: replace(edit, path=renamed(edit.path)))


def _with_places(finding: Finding, moved: Callable[[Place], Place], moved_edit: Callable[[Edit], Edit]) -> Finding:
    """Return a finding with its places, and those of its fix, given in another way."""
    fix = finding.fix
    if fix is not None:
        fix = replace(fix, edits=tuple(map(moved_edit, fix.edits)))
    related = tuple(map(moved, finding.related))
    return replace(finding, place=moved(finding.place), related=related, fix=fix)
