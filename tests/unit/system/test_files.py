"""Files are read and written completely or not at all."""

import errno
import os
import stat
from pathlib import Path

import pytest

from syncheck.system import files


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_new_file_has_the_default_mode(tmp_path):
    files.write(tmp_path / "new", b"text")
    (tmp_path / "other").write_bytes(b"")
    assert (tmp_path / "new").read_bytes() == b"text"
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_a_file_keeps_its_mode_and_a_link_stays_a_link(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    target.chmod(0o640)
    link.symlink_to("target")
    files.write(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert names(tmp_path) == ["link", "target"]


def test_writing_a_dangling_link_creates_its_target(tmp_path):
    (tmp_path / "link").symlink_to("target")
    files.write(tmp_path / "link", b"new")
    assert (tmp_path / "target").read_bytes() == b"new"


@pytest.mark.parametrize("failing", ["chmod", "replace"])
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, failing):
    path = tmp_path / "report"
    path.write_bytes(b"old")

    def raise_no_space(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, failing, raise_no_space)
    with pytest.raises(OSError, match="No space left"):
        files.write(path, b"new")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["report"]


def test_an_interrupt_leaves_no_temporary_file(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        files.write(tmp_path / "report", b"new")
    assert names(tmp_path) == []


def test_a_file_that_cannot_be_replaced_is_overwritten(tmp_path, monkeypatch):
    path = tmp_path / "report"
    path.write_bytes(b"a long old report")

    def raise_busy(*_):
        raise OSError(errno.EBUSY, "Device or resource busy")

    monkeypatch.setattr(os, "replace", raise_busy)
    files.write(path, b"new")
    assert path.read_bytes() == b"new"
    assert names(tmp_path) == ["report"]


def test_a_write_protected_file_is_not_replaced(tmp_path, monkeypatch):
    path = tmp_path / "report"
    path.write_bytes(b"old")

    def raise_busy(file, mode):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(files, "open", raise_busy, raising=False)  # root may write everywhere
    with pytest.raises(PermissionError):
        files.write(path, b"new")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["report"]


def test_a_device_can_be_written_to(tmp_path):
    files.write(os.devnull, b"text")
    assert not Path(os.devnull).is_file()
    with pytest.raises(OSError, match="No space left"):
        files.write("/dev/full", b"text")


def test_only_regular_files_are_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_bytes(b"text")
    assert files.read(tmp_path / "file") == b"text"
    for path in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(OSError, match="not a regular file"):
            files.read(path)
    with pytest.raises(IsADirectoryError):
        files.read(tmp_path)


def test_the_stamp_of_a_file_changes_with_it(tmp_path):
    path = tmp_path / "a"
    assert files.stamp(path) is None
    path.write_text("1")
    first = files.stamp(path)
    path.write_text("22")
    assert first is not None
    assert files.stamp(path) != first


def test_an_impossible_path_has_no_stamp():
    assert files.stamp("a\0b") is None
