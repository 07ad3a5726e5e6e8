"""The comparison with real GPUs, run here on simulated ones."""

import json
import random
import shutil
from pathlib import Path

import pytest

from tests.agreement import on_gpus
from tests.agreement.drawing import draw

N_PROGRAMS = 8


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    file = tmp_path_factory.mktemp("simulated") / "expected.json"
    assert on_gpus.main(["--simulate", "--programs", str(N_PROGRAMS), "--output", str(file)]) == 0
    return file


@pytest.fixture
def expected(simulated, tmp_path):
    """Return the path of a copy of the simulator's findings, which a test may change."""
    return Path(shutil.copy(simulated, tmp_path))


def compare(expected, *options):
    output = expected.with_name("result.json")
    arguments = ["--backend", "sim", "--expected", str(expected), "--output", str(output), *options]
    return on_gpus.main(arguments), json.loads(output.read_text())


def test_findings_and_values_agree(expected):
    status, result = compare(expected)
    assert (status, result["problems"], result["stopped"]) == (0, [], "")
    counts = result["counts"]
    assert counts["programs"] == N_PROGRAMS
    assert counts["findings"]
    assert counts["values compared"]


def test_differing_findings_are_a_problem(expected):
    seeds = json.loads(expected.read_text())
    seed = next(seed for seed in seeds if not draw(random.Random(int(seed))).has_threads)
    expected.write_text(json.dumps(seeds | {seed: ["SYN101:1 with []"]}))
    status, result = compare(expected)
    assert status == 1
    (problem,) = result["problems"]
    assert (problem["seed"], problem["simulated"]) == (seed, ["SYN101:1 with []"])


def test_differing_values_are_a_problem(expected, monkeypatch):
    monkeypatch.setattr(on_gpus, "execute", lambda program: [0])
    status, result = compare(expected)
    assert status == 1
    assert any("values" in problem for problem in result["problems"])


def test_programs_with_two_devices_are_skipped_on_one_device(expected):
    comparison = on_gpus.Comparison("sim", 1)
    comparison.run(json.loads(expected.read_text()), 60)
    assert comparison.counts["left out: they need more devices"] + comparison.counts["programs"] == N_PROGRAMS
    assert comparison.counts["left out: they need more devices"]


def test_the_run_stops_at_its_time_limit(expected):
    status, result = compare(expected, "--limit", "-1")
    assert status == 1
    assert result["stopped"] == "after -1 s, before seed 0"
