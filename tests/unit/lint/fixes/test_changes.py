"""Files are changed completely or not at all."""

import os
import stat

import pytest

from syncheck.config.options import Options
from syncheck.lint.engine import lint_data
from syncheck.lint.fixes.changes import Changes, change

RACE = b"""\
import torch
s = torch.cuda.Stream()
x = torch.ones(4, device="cuda")
with torch.cuda.stream(s):
    y = x * 2
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "a.py"
    path.write_bytes(RACE)
    return path


def changed(path, kind, **options):
    return change([str(path)], kind, lambda _: Options(**options), unsafe=False)


def test_a_file_is_fixed(file):
    done = changed(file, "fix")
    assert [finding.rule.code for finding in done.fixed] == ["SYN101"]
    assert (done.n_files, done.problems) == (1, [])
    assert b"wait_stream" in file.read_bytes()


def test_a_diff_changes_nothing(file):
    diff = changed(file, "diff").diff
    assert diff.startswith("--- a.py\n+++ a.py\n")
    assert "+s.wait_stream(torch.cuda.current_stream())\n" in diff
    assert file.read_bytes() == RACE


def test_ignore_comments_are_added(file):
    assert changed(file, "ignore").n_comments == 1
    assert b"ignore[SYN101]" in file.read_bytes()


def test_unused_comments_are_removed(file):
    file.write_bytes(RACE.replace(b"s = torch.cuda.Stream()", b"s = torch.cuda.Stream()  # syncheck: ignore[SYN2]"))
    assert changed(file, "remove").n_comments == 1
    assert file.read_bytes() == RACE


def test_unselected_rules_change_nothing(file):
    before = file.stat().st_mtime_ns
    changed(file, "fix", ignore=("SYN101",))
    assert (file.read_bytes(), file.stat().st_mtime_ns) == (RACE, before)


def test_file_mode_and_line_endings_are_kept(file):
    file.write_bytes(RACE.replace(b"\n", b"\r\n"))
    os.chmod(file, 0o754)
    changed(file, "fix")
    assert stat.S_IMODE(file.stat().st_mode) == 0o754
    assert b"\r\r" not in file.read_bytes()
    assert file.read_bytes().count(b"\r\n") >= 5


@pytest.mark.parametrize(("name", "data"), [("a.ipynb", RACE), ("b.py", b"\xff" + RACE), ("c.py", b"x = 1\n")])
def test_files_that_cannot_be_changed_are_left_alone(file, name, data):
    path = file.with_name(name)
    path.write_bytes(data)
    changed(path, "fix")
    assert path.read_bytes() == data


def test_a_missing_file_is_not_an_error(file):
    assert changed(file.with_name("gone.py"), "fix") == Changes()
    assert list(file.parent.iterdir()) == [file]


def test_a_finding_about_code_of_another_file_can_be_ignored(file):
    file.write_text(
        "import torch\nside = torch.cuda.Stream()\n\n\ndef load(x):\n    with torch.cuda.stream(side):\n"
        "        return x.to('cuda', non_blocking=True)\n"
    )
    user = file.with_name("b.py")
    user.write_text("import torch\nfrom a import load\n\nx = load(torch.ones(4).pin_memory())\nprint(x + 1)\n")
    before = lint_data(str(user), user.read_bytes()).findings
    assert [finding.rule.code for finding in before] == ["SYN101"]
    assert changed(user, "ignore").n_comments == 1
    assert lint_data(str(user), user.read_bytes()).findings == ()
