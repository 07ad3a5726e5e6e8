"""Ordinary programs run unmodified on virtual GPUs, with the right values and without findings."""

import sys
from pathlib import Path

import pytest

from tests.sim.conftest import run_program

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))
INCOMPLETE = {
    "processes": [f"a program started with `{Path(sys.executable).name}` was not checked"],
}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_runs_unmodified_without_findings(program, tmp_path):
    status, report, log = run_program(program, tmp_path)
    assert status == 0, log
    assert [f for f in report["findings"] if f["level"] in {"error", "warning"}] == []
    assert report["incomplete"] == INCOMPLETE.get(program.stem, [])
