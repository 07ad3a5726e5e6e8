import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


class Worker:
    """Runs programs through the tool, each in a fork of a process that has imported torch already."""

    def __init__(self):
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE.parents[1])}
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "worker.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def run(self, program, folder):
        """Return (exit status, report or None, everything that was printed)."""
        report, log = folder / "report.json", folder / "log.txt"
        job = {"program": str(program), "report": str(report), "log": str(log), "cwd": str(folder)}
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        status = int(self.process.stdout.readline())
        return status, json.loads(report.read_text()) if report.exists() else None, log.read_text()

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture(scope="session")
def worker():
    one = Worker()
    yield one
    one.close()


@pytest.fixture
def simulate(worker, tmp_path):
    """Run the source of a program; return its report. It must end with status 0 or with that of its findings."""

    def run(source):
        path = tmp_path / "program.py"
        path.write_text(source)
        status, report, log = worker.run(path, tmp_path)
        assert report is not None, log
        assert "Traceback" not in log, log
        assert status in {0, 1}, log
        return report

    return run
