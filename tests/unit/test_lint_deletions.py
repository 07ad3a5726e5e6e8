"""Cases and counts of `bench/lint_deletions.py`."""

import pytest

from bench.lint_deletions import Case, cases_of, choose_cases, new_findings

LOAD = """\
import torch


def load():
    side = torch.cuda.Stream()
    x = torch.ones(4, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x * 2
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    return y
"""
PROCESS = "\n\ndef stop(self, done):\n    self.process.wait()\n    done.wait()\n"


@pytest.fixture
def folder(tmp_path):
    for repo, name, text in (
        ("one+a", "load.py", LOAD + PROCESS),
        ("two+b", "vendored/load.py", "# a copy\n" + LOAD),
        ("two+b", "others.py", "print('torch')\n"),
        ("two+b", "old.py", "import torch; print 'isend'\n"),
    ):
        path = tmp_path / repo / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def calls(cases: list[Case]) -> list[tuple[int, str]]:
    return sorted((case.deletion.line, case.deletion.call) for case in cases)


def test_only_calls_that_may_wait_for_a_gpu_are_deleted(folder):
    found = calls([case for case, _ in cases_of(folder, "one+a")])
    assert found == [(7, "wait_stream"), (10, "wait_stream"), (11, "synchronize"), (17, "wait")]


def test_equal_functions_count_once(folder):
    assert [call for _, call in calls(choose_cases(folder, 9, 9))] == [
        "wait_stream",
        "wait_stream",
        "synchronize",
        "wait",
    ]


def test_the_requested_number_of_cases_per_call_is_chosen(folder):
    assert sorted(call for _, call in calls(choose_cases(folder, 1, 9))) == ["synchronize", "wait", "wait_stream"]


def test_findings_added_by_a_deletion_are_counted(folder):
    cases = sorted((case for case, _ in cases_of(folder, "one+a")), key=lambda case: case.deletion.line)
    new = [[code for code, *_ in each] for each in new_findings(folder, cases)]
    assert new == [["SYN101"], [], [], []]


def test_a_case_belongs_to_the_half_of_its_repository(folder):
    halves = {case.half for case, _ in cases_of(folder, "one+a")}
    assert len(halves) == 1
    assert halves <= {"A", "B"}
