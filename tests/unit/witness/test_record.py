"""Records of a run under a schedule."""

import os
import subprocess

import pytest

from syncheck.errors import RecordError
from syncheck.witness import record
from syncheck.witness.record import Record, Request, Values
from syncheck.witness.schedule import LaunchId, Pair
from tests import warm


def test_a_record_round_trips_through_a_file(tmp_path):
    values = Values(5, ("1", "2"), 2, "train.py:3")
    one = Record({"1.2": [values]}, {"2.1": []}, {"1.2": "train.py:3"}, ["1.2"], [values], [values], ["why"], True)
    one.write(str(tmp_path / "record.json"))
    assert record.read(tmp_path / "record.json") == one


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"read": 3}', "\0"])
def test_a_damaged_record_is_rejected(text, tmp_path):
    (tmp_path / "record.json").write_text(text)
    with pytest.raises(RecordError):
        record.read(tmp_path / "record.json")


def test_a_missing_record_is_rejected(tmp_path):
    with pytest.raises(RecordError):
        record.read(tmp_path / "record.json")


def test_a_request_applies_to_a_single_process(monkeypatch):
    wanted = Request("there", (Pair(LaunchId(1, 2), LaunchId(0, 0)),), "/project")
    assert record.root() == ""
    monkeypatch.setenv(record.REQUEST, wanted.as_variable())
    assert record.root() == "/project"
    assert record.request() == wanted
    assert record.REQUEST not in os.environ
    assert record.request() is None


def test_a_process_with_an_empty_rank_is_alone(monkeypatch):
    monkeypatch.setenv("RANK", "")
    monkeypatch.setenv(record.REQUEST, Request("there").as_variable())
    assert record.request() == Request("there")


def test_each_rank_prints_into_its_own_file(monkeypatch, tmp_path):
    file = str(tmp_path / "record.json")
    assert record.stdout_folder() is None
    monkeypatch.setenv(record.REQUEST, Request(file).as_variable())
    program = "import os; print('rank', os.environ['RANK'])"
    ranks = f"start_ranks(2, ['-c', {program!r}], {{}}, {record.stdout_folder()!r})"
    subprocess.run([warm.PYTHON, "-c", f"from syncheck.run.start_ranks import start_ranks; {ranks}"], check=True)
    assert [record.lines_of_rank(file, rank) for rank in range(3)] == [["rank 0"], ["rank 1"], []]
