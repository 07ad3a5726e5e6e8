"""Run fixtures, each in a process of its own, forked from one that has imported torch.

Reads requests from standard input, one JSON object a line: {"path", "devices", "ranks", "folder", "limit",
"backend", "device_type"}. Answers each with one JSON line on standard output: {"status", "timed_out"}. The folder is
the program's working directory and receives `report.json`, `stdout` and `stderr`. `status` is the program's own,
whatever was found.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # every dispatch mode imports it; like the simulator, once, here, and not in every child

import syncheck.run.backends
import syncheck.sim.backend  # noqa: F401
from syncheck.commands import run as commands
from syncheck.config.options import Options
from syncheck.findings import Report
from syncheck.report.render import render
from syncheck.run import launcher

_POLL_SECONDS = 0.02


def serve() -> None:
    """Answer requests until there are no more."""
    torch.set_num_threads(1)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # nothing else may get between the answers
    for line in sys.stdin:
        answers.write(json.dumps(_run(json.loads(line))) + "\n")
        answers.flush()


def _run(request: dict[str, Any]) -> dict[str, Any]:
    child = os.fork()
    if child == 0:
        _become_program(request)
    return _wait(child, time.monotonic() + request["limit"])


def _wait(child: int, deadline: float) -> dict[str, Any]:
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return {"status": os.waitstatus_to_exitcode(status), "timed_out": False}
        time.sleep(_POLL_SECONDS)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return {"status": 0, "timed_out": True}


def _become_program(request: dict[str, Any]) -> None:
    """Run one fixture and leave this process."""
    status = 70
    try:
        os.setsid()
        os.chdir(request["folder"])
        _redirect(os.devnull, 0, os.O_RDONLY)
        _redirect("stdout", 1, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        _redirect("stderr", 2, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        status = _check(request)
    except BaseException:  # noqa: BLE001  whatever it is, the child must not return
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _redirect(path: str, descriptor: int, flags: int) -> None:
    opened = os.open(path, flags, 0o644)
    os.dup2(opened, descriptor)
    os.close(opened)


def _check(request: dict[str, Any]) -> int:
    if request["ranks"] > 1:
        _run_ranks(request)
        return 0  # how each of them ends depends on which is first
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
    serve()
