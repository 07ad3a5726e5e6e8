"""Text changes that a fix makes to a file."""

import pytest

from syncheck.findings import Edit, EditKind
from syncheck.lint.fixes.replacements import Replacement, replacements

SOURCE = "import torch\n\nx = 1\n\ndone.wait()\ny = 2"


def insert(line, *, after=False, code="torch.cuda.synchronize()"):
    return Edit(EditKind.INSERT_AFTER if after else EditKind.INSERT_BEFORE, "a.py", line, 0, code)


CALL = Edit(EditKind.REPLACE_CALL, "a.py", 5, 1, "done.synchronize()", "wait")
WRONG = Edit(EditKind.REPLACE_CALL, "a.py", 3, 1, "done.synchronize()", "wait")


def test_an_inserted_line_replaces_no_line():
    assert replacements(SOURCE, [insert(3)]) == (Replacement(3, 3, "torch.cuda.synchronize()\n"),)
    assert replacements(SOURCE, [insert(3, after=True)]) == (Replacement(4, 4, "torch.cuda.synchronize()\n"),)


def test_a_changed_line_is_replaced():
    assert replacements(SOURCE, [CALL]) == (Replacement(5, 6, "done.synchronize()\n"),)


def test_several_edits_are_several_replacements_in_order():
    assert replacements(SOURCE, [CALL, insert(3)]) == (
        Replacement(3, 3, "torch.cuda.synchronize()\n"), Replacement(5, 6, "done.synchronize()\n"),
    )  # fmt: skip


def test_edits_of_adjacent_lines_are_one_replacement():
    (part,) = replacements(SOURCE, [insert(5), CALL])
    assert part == Replacement(5, 6, "torch.cuda.synchronize()\ndone.synchronize()\n")


def test_a_duplicate_edit_is_applied_once():
    assert replacements(SOURCE, [CALL, CALL]) == replacements(SOURCE, [CALL])


@pytest.mark.parametrize("edits", [[WRONG], [CALL, WRONG], [insert(99)]])
def test_if_one_edit_is_impossible_nothing_is_changed(edits):
    assert replacements(SOURCE, edits) == ()


@pytest.mark.parametrize("source", ["def (", "x = 1\0"])
def test_invalid_python_is_not_changed(source):
    assert replacements(source, [insert(1)]) == ()


def test_a_last_line_without_a_newline_keeps_its_text():
    parts = replacements(SOURCE, [insert(6)])
    lines = SOURCE.splitlines(keepends=True)
    for part in reversed(parts):
        lines[part.first - 1 : part.last - 1] = [part.text]
    assert "".join(lines) == SOURCE.replace("y = 2", "torch.cuda.synchronize()\ny = 2")


def test_an_empty_list_of_edits_changes_nothing():
    assert replacements(SOURCE, []) == ()
