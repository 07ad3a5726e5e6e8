import json

import pytest

from tests import warm


def run_program(program, folder):
    """Run a program on four virtual GPUs; return (exit status, report or None, everything that was printed)."""
    report = folder / "report.json"
    options = ("--backend", "sim", "--devices", "4", "--output-format", "json", "--output", str(report))
    done = warm.run("syncheck", "run", *options, str(program), folder=folder, limit=60)
    return done.returncode, json.loads(report.read_text()) if report.exists() else None, done.stdout + done.stderr


@pytest.fixture
def simulate(tmp_path):
    """Run the source of a program; return its report. It must end with status 0 or with that of its findings."""

    def run(source):
        path = tmp_path / "program.py"
        path.write_text(source)
        status, report, log = run_program(path, tmp_path)
        assert report is not None, log
        assert "Traceback" not in log, log
        assert status in {0, 1}, log
        return report

    return run
