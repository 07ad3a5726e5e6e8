"""How ranks find each other's records, and what they report if they cannot."""

import json
import tempfile
from pathlib import Path

import pytest

from syncheck.findings import Report
from syncheck.ranks import rendezvous, writer
from syncheck.ranks.rendezvous import Membership


class Store:
    """The part of a `torch.distributed.Store` that the ranks use."""

    def __init__(self, value=None):
        self.values = {} if value is None else {"syncheck/folder": value}

    def compare_set(self, key, expected, desired):
        assert expected == ""
        return self.values.setdefault(key, desired.encode())

    def set(self, key, value):
        self.values[key] = value.encode()

    def get(self, key):
        return self.values[key]

    def wait(self, keys, timeout):
        del keys, timeout


@pytest.fixture(autouse=True)
def no_active_writer(monkeypatch):
    monkeypatch.setattr(writer, "active", None)
    monkeypatch.delenv(rendezvous.PARTS, raising=False)


def test_the_first_rank_creates_the_folder_and_the_others_find_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store, first = Store(), Membership(None)
    first.join(store, 0, 2)
    folder = writer.current().folder
    assert folder.parent == tmp_path / ".syncheck"
    assert (tmp_path / ".syncheck" / ".gitignore").read_text() == "*\n"
    monkeypatch.setattr(writer, "active", None)
    second = Membership(None)
    second.join(store, 1, 2)
    assert (writer.current().folder, writer.current().process.rank) == (folder, 1)
    assert (first.unmerged_reason, second.unmerged_reason) == ("", "")


def store_of_other_machine(monkeypatch, folder):
    """Return the store of a job whose folder is on another machine."""
    monkeypatch.setattr(rendezvous, "_VISIBILITY_TIMEOUT", 0.2)
    store = Store(json.dumps(["a job", "other-machine"]).encode())
    store.set("syncheck/ready", json.dumps([str(folder), ""]))
    return store


def test_ranks_that_cannot_see_the_folder_keep_their_records_locally(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    store = store_of_other_machine(monkeypatch, tmp_path / "file" / "job-1")
    members = []
    for rank in (1, 2):
        monkeypatch.setattr(writer, "active", None)
        members.append(Membership(None))
        members[-1].join(store, rank, 3)
        assert writer.current().folder == tmp_path / ".syncheck" / "job-1"
        writer.current().end(0, Report(), ["train.py"], [])
    merged = members[-1].end(Report(), 0, ["train.py"], [])
    assert "created on other-machine, is not visible on " in merged.report.incomplete[0]
    assert "syncheck merge FOLDER FOLDER" in merged.report.incomplete[0]
    assert "rank 0 of 3 left no record" in merged.report.incomplete[1]
    assert merged.report.notes[-1].endswith("syncheck merge .syncheck/job-1")


def test_a_rank_that_cannot_write_anywhere_says_so(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    store = store_of_other_machine(monkeypatch, tmp_path / "file" / "job-1")
    monkeypatch.setattr(Path, "mkdir", lambda *_, **__: (tmp_path / "file" / "x").write_text(""))
    member = Membership(None)
    member.join(store, 1, 2)
    assert writer.current() is None
    assert "cannot create its own: specify a shared folder with --ranks-dir" in member.unmerged_reason


def test_an_unusable_store_isolates_the_rank(tmp_path):
    member = Membership(tmp_path)
    member.join(object(), 0, 2)
    assert member.unmerged_reason.startswith("the ranks could not agree on a folder: AttributeError")


def test_an_unwritable_folder_isolates_all_ranks_immediately(tmp_path):
    (tmp_path / "file").touch()
    store = Store()
    for rank in range(3):
        member = Membership(tmp_path / "file")
        member.join(store, rank, 3)
        assert (
            member.unmerged_reason
            == f"cannot write to {tmp_path / 'file'}: Not a directory; specify a folder with --ranks-dir"
        )
        assert writer.current() is None


def test_ranks_in_a_read_only_folder_write_to_the_temporary_folder(tmp_path, monkeypatch):
    (tmp_path / ".syncheck").touch()  # root can write to any folder, but not into a file
    monkeypatch.chdir(tmp_path)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    store = Store()
    for rank in range(2):
        monkeypatch.setattr(writer, "active", None)
        member = Membership(None)
        member.join(store, rank, 2)
        assert member.unmerged_reason == ""
        assert writer.current().folder.parent == tmp_path / "temporary"
    assert [path.name[:4] for path in (tmp_path / "temporary").iterdir()] == ["job-"]


def test_a_single_process_is_not_a_job(tmp_path):
    member = Membership(tmp_path)
    member.join(Store(), 0, 1)
    assert (writer.current(), member.unmerged_reason) == (None, "")
