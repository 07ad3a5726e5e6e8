"""Runs recorded on real GPUs give the same findings when replayed without torch and without a GPU."""

from pathlib import Path

import pytest

from syncheck.commands.run import replay
from syncheck.config.options import Options

TRACES = Path(__file__).parents[2] / "fixtures" / "traces"


def traces() -> list[Path]:
    return sorted(TRACES.glob("*.trace.gz"))


def test_each_trace_has_its_expected_findings():
    assert len(traces()) >= 12
    assert {p.name.removesuffix(".trace.gz") for p in traces()} == {p.stem for p in TRACES.glob("*.expected")}


@pytest.mark.parametrize("path", traces(), ids=lambda path: path.name.removesuffix(".trace.gz"))
def test_replaying_a_recorded_run_gives_its_findings(path):
    expected = path.with_name(path.name.replace(".trace.gz", ".expected")).read_text().split("\n")
    report = replay([path], Options())
    found = [f"{f.location.frame.path}:{f.location.frame.line} {f.rule.code}" for f in report.findings]
    assert found == [line for line in expected if line]
    assert report.incomplete == ()
    assert report.summary.operators > 0
