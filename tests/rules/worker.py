"""Checks a fixture: `python worker.py REQUEST`, a JSON object {"path", "devices", "ranks", "backend", "device_type"}.

Writes `report.json` to the working directory. The exit status is the program's own, regardless of the findings.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from syncheck.commands import run as commands
from syncheck.config.options import Options
from syncheck.findings import Report
from syncheck.report.render import render
from syncheck.run import launcher


def check(request: dict[str, Any]) -> int:
    """Run one fixture and return the exit status."""
    if request["ranks"] > 1:
        _run_ranks(request)
        return 0  # the exit status of each rank depends on which one is first
    options = Options(
        backend=request["backend"],
        devices=request["devices"],
        device_type=request["device_type"],
        output_format="json",
    )

    def deliver(report: Report) -> int:
        text = render(report.completed(), options, color=False)
        Path("report.json").write_text(text, encoding="utf-8")
        return 0

    return commands.run(launcher.Program(request["path"], (), is_module=False), options, deliver)


def _run_ranks(request: dict[str, Any]) -> None:
    command = [sys.executable, "-m", "syncheck", "run", "--backend", request["backend"]]
    command += [
        "--device-type",
        request["device_type"],
        "--devices",
        str(request["devices"]),
        "--nproc",
        str(request["ranks"]),
        "--hang-timeout",
        "5",
    ]
    command += ["--output-format", "json", "--output", "report.json", request["path"]]
    subprocess.run(command, check=False)


if __name__ == "__main__":
    sys.exit(check(json.loads(sys.argv[1])))
