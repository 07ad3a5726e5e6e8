"""Ranks that issue different collectives cause one finding that locates the difference, even if the job hangs."""

import json
import signal
import subprocess
import time

import pytest

from tests.ranks.conftest import PROGRAMS, RUN, forked

pytestmark = pytest.mark.slow

PROGRAM = str(PROGRAMS / "divergence.py")
LINE = {
    name: number
    for number, text in enumerate((PROGRAMS / "divergence.py").read_text().split("\n"), 1)
    for name in [text.partition("# at: ")[2]]
    if name
}
ALL_REDUCE, FLOAT = "all_reduce(float32 [4], sum)", "float32 [4]"
CASES = {
    "operation": f"rank 1 issues broadcast({FLOAT}, root 0) where {ALL_REDUCE} is expected",
    "shape": f"rank 1 issues all_reduce(float32 [8], sum) where {ALL_REDUCE} is expected",
    "dtype": f"rank 1 issues all_reduce(float64 [4], sum) where {ALL_REDUCE} is expected",
    "reduce": f"rank 1 issues all_reduce({FLOAT}, max) where {ALL_REDUCE} is expected",
    "root": f"rank 1 issues broadcast({FLOAT}, root 1) where broadcast({FLOAT}, root 0) is expected",
    "splits": "rank 0 issues all_to_all_single with 3 elements for rank 1 where 4 is expected",
    "fewer": f"rank 1 issues no further collective where {ALL_REDUCE} is expected",
    "groups": f"rank 1 issues all_reduce in group 1 where {ALL_REDUCE} in group 0 is expected",
    "message": "rank 1 issues send or receive(8 float32) where send or receive(4 float32) is expected",
    "python": f"rank 1 issues no collective (it is stuck here) where {ALL_REDUCE} is expected",
    "native": f"rank 1 issues no collective (it is stuck here) where {ALL_REDUCE} is expected",
}


HERE = ["groups", "message"]
"""The cases that run here. The fixtures cover others, and all of them run on GPUs."""


@pytest.mark.parametrize("case", HERE)
def test_the_first_divergence_is_the_only_finding(case, run_in_folder, tmp_path):
    run = [*RUN, "--nproc", "2", "--hang-timeout", "4", "--output-format", "json", "--output", "report.json"]
    done = run_in_folder(*run, PROGRAM, case)
    report = json.loads((tmp_path / "report.json").read_text())
    found = [(f["rule"], f["line"], f["message"]) for f in report["findings"]]
    assert found == [("SYN604", LINE[case], CASES[case])], done.stderr
    assert report["findings"][0]["help"]
    assert "issues" in report["findings"][0]["related"][0]["message"]  # the other call
    assert done.returncode != 0  # 1, or the status of a rank that crashed because of the mismatch


def test_a_hanging_job_that_is_interrupted_is_reported(tmp_path):
    run = [*RUN, "--output-format", "json", "--output", "report.json"]
    process = subprocess.Popen(
        forked([*run, "--nproc", "2", PROGRAM, "operation"]), cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    while len(list(tmp_path.glob("ready-*"))) < 2:
        time.sleep(0.1)
    time.sleep(2)  # until they hang
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    report = json.loads((tmp_path / "report.json").read_text())
    assert [f["rule"] for f in report["findings"]] == ["SYN604"]


def test_ranks_of_a_hanging_job_started_elsewhere_exit_by_themselves(start_ranks, tmp_path):
    run = [*RUN, "--hang-timeout", "3", "--output-format", "json", "--output", "report.json", PROGRAM, "native"]
    ends = start_ranks(run, 2, timeout=60)
    assert sorted(status for status, _ in ends) == [-signal.SIGKILL, 1]  # a rank in native code is killed by the other
    report = json.loads((tmp_path / "report.json").read_text())
    assert [(f["rule"], f["line"]) for f in report["findings"]] == [("SYN604", LINE["native"])]


def test_missing_ranks_are_reported_instead_of_waited_for(start_ranks, tmp_path):
    environment = {"WORLD_SIZE": "3"}  # but only two are started
    ends = start_ranks([*RUN, "--hang-timeout", "4", PROGRAM, "reduce"], 2, timeout=60, **environment)
    assert all(status for status, _ in ends)
    words = "incomplete: the job hangs: init_process_group took more than 4 seconds"
    assert any(words in " ".join(text.split()) for _, text in ends)  # the other rank may see the store disappear
