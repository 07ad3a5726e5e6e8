"""The folder for the records of ranks."""

import pytest

from syncheck.errors import RecordError
from syncheck.ranks.rendezvous import folder_for_ranks


def test_records_are_kept_in_the_folder_of_the_user(tmp_path):
    with folder_for_ranks(tmp_path / "records") as folder:
        (folder / "part").touch()
    assert folder.parent == tmp_path / "records"
    assert (folder / "part").exists()


def test_a_temporary_folder_is_removed():
    with folder_for_ranks(None) as folder:
        assert folder.is_dir()
    assert not folder.exists()


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(RecordError, match="cannot write to"), folder_for_ranks(tmp_path / "file"):
        pass
