"""How `make peer` interprets the outcomes of PyTorch's tests and its list of expected outcomes."""

import hashlib
import io
import json
import sys
import tarfile
from collections import Counter
from pathlib import Path

import pytest

PEER = Path(__file__).parents[1] / "peer"


@pytest.fixture
def peer(monkeypatch):
    """The modules of the folder, which is not a package."""
    monkeypatch.syspath_prepend(PEER)
    import expected
    import source

    yield expected, source
    for name in ("expected", "source"):
        sys.modules.pop(name)


@pytest.fixture
def listed(peer, tmp_path):
    """A list of expected outcomes with one test of each kind."""
    path = tmp_path / "expected.toml"
    groups = [("fails", "t.py::fails"), ("unsteady", "t.py::unsteady"), ("not_run", "t.py::large")]
    groups += [("changed", "t.py::changes")]
    text = '[suite]\n"t.py" = "Test"\n'
    text += "".join(f'[[expected]]\noutcome = "{o}"\nreason = "so"\ntests = ["{t}"]\n' for o, t in groups)
    text += '[[expected]]\noutcome = "found"\ncodes = ["SYN101"]\nreason = "a race"\ntests = ["t.py::races"]\n'
    path.write_text(text, encoding="utf-8")
    return peer[0].read_expected(path)


def outcomes(peer, tmp_path, **tests):
    path = tmp_path / "outcomes.jsonl"
    entry = {"passed": False, "skipped": False, "failed": False, "codes": [], "why": ""}
    lines = [{"collected": [f"t.py::{name}" for name in tests]}]
    lines += [{"test": f"t.py::{name}"} | entry | how for name, how in tests.items() if how is not None]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return peer[0].read_outcomes(path)


PASSED, FAILED = {"passed": True}, {"failed": True, "why": "AssertionError: 1 != 2"}


@pytest.mark.parametrize(
    ("test", "outcome", "difference"),
    [
        ("passes", PASSED, []),
        ("passes", FAILED, ["t.py::passes: fails: AssertionError: 1 != 2"]),
        ("passes", {"passed": True, "codes": ["SYN102"]}, ["t.py::passes: is reported for SYN102"]),
        ("passes", None, ["t.py::passes: did not end"]),
        ("fails", FAILED, []),
        ("fails", PASSED, ["t.py::fails: passes, and is expected to fail"]),
        ("fails", {"skipped": True}, ["t.py::fails: is skipped, and is expected to fail"]),
        ("unsteady", PASSED, []),
        ("unsteady", FAILED, []),
        ("races", {"passed": True, "codes": ["SYN101"]}, []),
        ("races", PASSED, ["t.py::races: is expected to be reported for SYN101"]),
    ],
)
def test_unexpected_outcomes_are_shown(peer, listed, tmp_path, test, outcome, difference):
    assert peer[0].differences(listed, *outcomes(peer, tmp_path, **{test: outcome})) == difference


@pytest.mark.parametrize(
    ("test", "plain", "checked", "change"),
    [
        ("passes", PASSED, PASSED, []),
        ("passes", PASSED, FAILED, ["t.py::passes: passes without a check only: AssertionError: 1 != 2"]),
        ("passes", PASSED, {"skipped": True}, ["t.py::passes: passes without a check only: "]),
        ("passes", PASSED, None, ["t.py::passes: passes without a check only: "]),
        ("passes", FAILED, FAILED, []),
        ("passes", FAILED, PASSED, []),
        ("changes", PASSED, FAILED, []),
        ("changes", PASSED, PASSED, ["t.py::changes: passes"]),
    ],
)
def test_outcomes_that_change_under_a_check_are_shown(peer, listed, tmp_path, test, plain, checked, change):
    ended = [outcomes(peer, tmp_path, **{test: how})[1] for how in (plain, checked)]
    assert peer[0].changes(listed, *ended) == change


def test_listed_tests_that_no_longer_exist_are_shown(peer, listed):
    assert peer[0].unknown(listed, ["t.py::fails", "t.py::races", "t.py::changes"]) == [
        "t.py::unsteady: there is no such test"
    ]


def test_each_listed_test_has_one_outcome_and_a_known_file(peer):
    expected = peer[0].read_expected(PEER / "expected.toml")
    times = Counter([*expected.not_run, *expected.failing, *expected.unsteady, *expected.changed])
    assert [test for test, count in times.items() if count > 1] == []
    assert {test.partition("::")[0] for test in (*times, *expected.found)} <= {*expected.suite, *expected.unchanged}


def test_only_the_needed_files_of_the_right_archive_are_unpacked(peer, tmp_path, monkeypatch):
    source = peer[1]
    with tarfile.open(tmp_path / source.ARCHIVE, "w:xz") as archive:
        for name in ("test/test_cuda.py", "test/autograd/a.py", "torch/x.py", "test/autograd/../../../outside.py"):
            member = tarfile.TarInfo(f"pytorch/{name}")
            member.size = 1
            archive.addfile(member, io.BytesIO(b"#"))
    with pytest.raises(SystemExit, match="is not the archive of Debian's package"):
        source.unpacked(tmp_path)
    monkeypatch.setattr(source, "SHA256", hashlib.sha256((tmp_path / source.ARCHIVE).read_bytes()).hexdigest())
    tests = source.unpacked(tmp_path)
    assert sorted(path.relative_to(tests).as_posix() for path in tests.rglob("*.py")) == [
        "autograd/a.py",
        "test_cuda.py",
    ]
