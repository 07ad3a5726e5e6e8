"""Findings moved to another path or to the cells of a notebook."""

import pytest

from syncheck.findings import UNKNOWN, Applicability, Edit, EditKind, Finding, Fix, Frame, Location
from syncheck.lint.locations import in_cells, lines_about, lines_of, main_lines_of, under
from syncheck.rules.catalogue import find

CELLS = ((1, 3), (11, 4), (21, 7))
PATH = "a.ipynb"


def location(line, *, path=PATH, excerpt=()):
    return Location(
        Frame(path, line, 5, line + 1, 9, "f", "x = 1"), "it happened", tuple((n, f"line {n}") for n in excerpt)
    )


def finding(primary, *related, edits=()):
    """Return a finding with an edit at each of the locations in `edits`."""
    changes = tuple(
        Edit(EditKind.INSERT_AFTER, edit.frame.path, edit.frame.line, 0, "torch.cuda.synchronize()") for edit in edits
    )
    fix = Fix(changes, Applicability.SAFE) if edits else None
    return Finding(find("SYN101"), primary, "a race", related=related, fix=fix)


def where(location):
    return location.frame.path, location.frame.line, location.frame.end_line


# -- cells


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (1, (f"{PATH}:cell 3", 1, 2)), (10, (f"{PATH}:cell 3", 10, 11)), (11, (f"{PATH}:cell 4", 1, 2)),
        (22, (f"{PATH}:cell 7", 2, 3)), (99, (f"{PATH}:cell 7", 79, 80)),
    ],
)  # fmt: skip
def test_a_line_of_the_notebooks_source_maps_to_a_cell(line, expected):
    moved = in_cells(finding(location(line)), PATH, CELLS)
    assert where(moved.location) == expected


def test_everything_except_the_lines_is_kept():
    moved = in_cells(finding(location(12)), PATH, CELLS).location
    frame = moved.frame
    assert (frame.column, frame.end_column, frame.function, frame.source, moved.message) == (
        5,
        9,
        "f",
        "x = 1",
        "it happened",
    )


def test_related_places_and_edits_move_too():
    moved = in_cells(finding(location(12), location(3), location(21), edits=[location(11), location(2)]), PATH, CELLS)
    assert [where(other)[:2] for other in moved.related] == [(f"{PATH}:cell 3", 3), (f"{PATH}:cell 7", 1)]
    assert [(edit.path, edit.line) for edit in moved.fix.edits] == [(f"{PATH}:cell 4", 1), (f"{PATH}:cell 3", 2)]
    assert moved.fix.applicability is Applicability.SAFE
    assert (moved.rule.code, moved.message) == ("SYN101", "a race")


def test_the_excerpt_is_limited_to_the_cell():
    moved = in_cells(finding(location(12, excerpt=range(9, 15))), PATH, CELLS)
    assert moved.location.excerpt == ((1, "line 11"), (2, "line 12"), (3, "line 13"), (4, "line 14"))
    moved = in_cells(finding(location(20, excerpt=range(18, 23))), PATH, CELLS)
    assert moved.location.excerpt == ((8, "line 18"), (9, "line 19"), (10, "line 20"))
    moved = in_cells(finding(location(30, excerpt=range(28, 33))), PATH, CELLS)
    assert [line for line, _ in moved.location.excerpt] == [8, 9, 10, 11, 12]


def test_an_unknown_place_is_in_no_cell():
    moved = in_cells(finding(location(12), UNKNOWN), PATH, CELLS)
    assert moved.related == (UNKNOWN,)


# -- paths


def test_a_file_and_its_cells_get_the_new_path_and_others_keep_theirs():
    before = finding(
        location(1),
        location(2, path=f"{PATH}:cell 3"),
        location(3, path="b.py"),
        edits=[location(4), location(5, path="c")],
    )
    moved = under(before, PATH, "sub/new.ipynb")
    assert where(moved.location) == ("sub/new.ipynb", 1, 2)
    assert [other.frame.path for other in moved.related] == ["sub/new.ipynb:cell 3", "b.py"]
    assert [edit.path for edit in moved.fix.edits] == ["sub/new.ipynb", "c"]


@pytest.mark.parametrize("other", ["a.ipynb2", "x/a.ipynb", "a.ipynb:1"])
def test_a_path_with_a_common_prefix_or_suffix_is_unrelated(other):
    assert under(finding(location(1, path=other)), PATH, "new").location.frame.path == other


def test_an_empty_path_is_not_a_prefix_of_other_paths():
    moved = under(finding(location(1, path=""), location(2, path="b.py")), "", "prog.py")
    assert [where(p)[0] for p in (moved.location, *moved.related)] == ["prog.py", "b.py"]


def test_moving_to_the_same_path_returns_the_same_finding():
    same = finding(location(1), edits=[location(2)])
    assert under(same, PATH, PATH) is same


def test_a_finding_without_a_fix_is_moved_without_one():
    assert under(finding(location(1)), PATH, "new").fix is None


def test_the_main_lines_leave_out_related_locations():
    found = [finding(location(3), location(8)), finding(location(5))]
    assert (main_lines_of(found), lines_of(found)) == ({3, 5}, {3, 5, 8})


def test_the_lines_about_a_rule_leave_out_other_rules():
    found = [finding(location(3), location(8)), finding(location(5))]
    assert (lines_about(found, find("SYN101")), lines_about(found, find("SYN701"))) == ({3, 5}, set())
