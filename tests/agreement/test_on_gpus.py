"""The comparison with real GPUs, run here on simulated ones."""

import json
import random

import pytest

from tests.agreement import on_gpus
from tests.agreement.drawing import draw


@pytest.fixture
def expected(tmp_path):
    file = tmp_path / "expected.json"
    assert on_gpus.main(["--simulate", "--programs", "12", "--output", str(file)]) == 0
    return file


def compare(expected, *options):
    output = expected.with_name("result.json")
    arguments = ["--backend", "sim", "--expected", str(expected), "--output", str(output), *options]
    return on_gpus.main(arguments), json.loads(output.read_text())


def test_findings_and_values_agree(expected):
    status, result = compare(expected)
    assert (status, result["problems"], result["stopped"]) == (0, [], "")
    counts = result["counts"]
    assert counts["programs"] == 12
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
    assert comparison.counts["left out: they need more devices"] + comparison.counts["programs"] == 12
    assert comparison.counts["left out: they need more devices"]


def test_the_run_stops_at_its_time_limit(expected):
    status, result = compare(expected, "--limit", "-1")
    assert status == 1
    assert result["stopped"] == "after -1 s, before seed 0"
