import json

import pytest

from tests import warm


def run_program(program, folder):
    """Run a program on four virtual GPUs. Return (exit status, report or None, combined output)."""
    report = folder / "report.json"
    options = ("--backend", "sim", "--devices", "4", "--output-format", "json", "--output", str(report))
    done = warm.run("syncheck", "run", *options, str(program), folder=folder, limit=60)
    return done.returncode, json.loads(report.read_text()) if report.exists() else None, done.stdout + done.stderr


@pytest.fixture
def simulate(tmp_path):
    """Return a function that runs a program's source and returns its report. Its exit status must be 0 or 1."""

    def run(source):
        path = tmp_path / "program.py"
        path.write_text(source)
        status, report, log = run_program(path, tmp_path)
        assert report is not None, log
        assert "Traceback" not in log, log
        assert status in {0, 1}, log
        return report

    return run
