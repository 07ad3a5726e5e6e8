"""Programs with two ranks on two GPUs with NCCL have the findings of the simulator."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ranks.test_divergence import ALL_REDUCE, CASES, LINE

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "tests" / "ranks" / "programs"
pytestmark = pytest.mark.gpu


ON_NCCL = {
    "fewer": (LINE["end"], CASES["python"]),  # a rank also waits for the others at the end
    "groups": (LINE["groups"], f"rank 1 issues {ALL_REDUCE} in group 1 where {ALL_REDUCE} in group 0 is expected"),
}
"""Differences from the simulator: the host runs ahead of NCCL's collectives and does not wait in gloo's."""


@pytest.fixture(autouse=True)
def two_gpus():
    import torch  # imported only if there are GPUs

    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")


def run(folder, program, *arguments, options=(), variables=None):
    command = [sys.executable, "-m", "syncheck", "run", "--backend", "cuda", "--nproc", "2", "--output", "report.json"]
    command += ["--output-format", "json", *options, str(PROGRAMS / f"{program}.py"), *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | (variables or {})
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    report = json.loads((folder / "report.json").read_text())
    found = [(f["rule"], f["line"], f["message"]) for f in report["findings"] if f["level"] != "advice"]
    return found, report, done


@pytest.mark.parametrize("program", ["collectives", "frameworks", "coalescing"])
def test_a_correct_program_has_no_findings(program, tmp_path):
    found, report, done = run(tmp_path, program)
    assert (found, report["incomplete"], done.returncode) == ([], [], 0), done.stderr[-3000:]
    assert report["summary"]["ranks"] == 2


def test_a_race_in_both_ranks_is_one_finding_that_names_both(tmp_path):
    _, report, _ = run(tmp_path, "race")
    assert [(f["rule"], f["line"], f["ranks"]) for f in report["findings"]] == [("SYN601", 12, [0, 1])]


@pytest.mark.parametrize(("arguments", "expected"), [([], []), (["all"], [("SYN601", 14)])])
def test_a_rank_that_only_sends_may_read_its_tensor(arguments, expected, tmp_path):
    found, report, done = run(tmp_path, "roots", *arguments)
    assert [finding[:2] for finding in found] == expected, done.stderr[-3000:]
    assert report["incomplete"] == []


@pytest.mark.parametrize("recorder", ["native", "python"])
@pytest.mark.parametrize(("arguments", "expected"), [([], []), (["same"], [("SYN601", 15)])])
def test_a_batch_that_sends_what_it_receives_is_reported(arguments, expected, recorder, tmp_path):
    found, report, done = run(tmp_path, "relay", *arguments, options=["--recorder", recorder])
    assert [finding[:2] for finding in found] == expected, done.stderr[-3000:]
    assert report["incomplete"] == []


@pytest.mark.parametrize(
    ("arguments", "variables", "codes"),
    [([], {}, ["SYN601"]), (["limit"], {}, []), ([], {"TORCH_NCCL_BLOCKING_WAIT": "1"}, [])],
    ids=["plain", "with a limit", "blocking by the environment"],
)
def test_a_wait_that_blocks_the_host_orders_every_stream(arguments, variables, codes, tmp_path):
    found, _, done = run(tmp_path, "blocking_wait", *arguments, variables=variables)
    assert [rule for rule, *_ in found] == codes, done.stderr[-3000:]


@pytest.mark.parametrize("case", CASES)
def test_the_first_divergence_is_the_only_finding(case, tmp_path):
    found, _, done = run(tmp_path, "divergence", case, options=["--hang-timeout", "8"])
    line, message = ON_NCCL.get(case, (LINE[case], CASES[case]))
    assert found == [("SYN604", line, message)], done.stderr[-3000:]
