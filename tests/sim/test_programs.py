"""Ordinary programs run unmodified on virtual GPUs, with the right values and without a finding."""

from pathlib import Path

import pytest

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))
SPAWNED = "a spawned process was not checked"


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_program_runs_unmodified_and_is_clean(program, worker, tmp_path):
    status, report, log = worker.run(program, tmp_path)
    assert status == 0, log
    assert [f for f in report["findings"] if f["level"] in {"error", "warning"}] == []
    assert report["incomplete"] == ([SPAWNED] if program.stem.startswith("spawned") else [])
