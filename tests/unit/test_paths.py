"""Paths as shown to the user."""

import ntpath
import os
from pathlib import Path

import pytest

from syncheck.config.options import Options
from syncheck.filters.baseline import Baseline
from syncheck.lint.files import discover
from syncheck.paths import relative_path


@pytest.fixture
def two_drives(monkeypatch):
    """Let Python compute relative paths as on Windows, with the working directory on drive C."""
    monkeypatch.setattr(ntpath, "getcwd", lambda: "C:\\job", raising=False)
    monkeypatch.setattr(os.path, "relpath", lambda path, start=os.curdir: ntpath.relpath(path, f"C:\\job\\{start}"))


def test_a_path_is_relative_to_a_folder():
    assert relative_path("a/b.py", "a") == "b.py"
    assert relative_path(Path("/a/b.py"), "/c") == "../a/b.py"


def test_a_path_on_another_drive_stays_absolute(two_drives):
    assert relative_path("D:/data/a.py", "job") == "D:/data/a.py"


def test_files_on_another_drive_can_be_linted_with_settings_for_files(two_drives, monkeypatch):
    options = Options(exclude=("old/",), per_file_ignores=(("tests/*", ("SYN1",)),), force_exclude=True)
    monkeypatch.setattr(os.path, "lexists", lambda _: True)
    assert list(discover(("D:/data/a.py",), lambda _: options)) == ["D:/data/a.py"]
    assert options.codes_for("D:/data/a.py") == Options().codes_for("a.py")
    assert Baseline(Path("known.json")).relative("D:/data/a.py").endswith("D:/data/a.py")
