"""Runs programs on simulated GPUs in processes forked from this one, which has imported torch."""

import json
import os
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import torch
import torch._dynamo  # every dispatch mode imports it

import syncheck.run.backends
import syncheck.sim.backend  # noqa: F401  imported once here instead of in every child
from syncheck.commands import run as commands
from syncheck.commands.reruns import Reruns
from syncheck.config.options import Options
from syncheck.errors import RecordError
from syncheck.findings import Finding
from syncheck.run import launcher
from syncheck.serialization import of_finding, to_finding
from syncheck.witness import record
from syncheck.witness.compare import Rerun
from syncheck.witness.schedule import Pair, Schedule


@dataclass(slots=True)
class ForkedReruns(Reruns):
    """Runs a program repeatedly, each time in a forked process.

    Attributes:
        findings: the findings of the latest run.
    """

    findings: tuple[Finding, ...] = ()

    def run(self, schedule: Schedule | None, pairs: tuple[Pair, ...] = ()) -> Rerun:
        """Run the program, optionally under a schedule."""
        sys.stdout.flush()
        folder = Path(tempfile.mkdtemp(prefix="syncheck-"))  # a child would delete a TemporaryDirectory
        try:
            child = os.fork()
            if child == 0:
                self._become(schedule, pairs, folder)
            status = _wait(child, time.monotonic() + (self.options.proof_limit or 1e9))
            if status is None:
                return Rerun((), 0, "", timed_out=True)
            try:
                seen = (record.read(Path(folder, "record.json")),)
            except RecordError:
                seen = ()
            found = Path(folder, "findings.json")
            self.findings = tuple(map(to_finding, json.loads(found.read_text()))) if found.exists() else ()
            lines = Path(folder, "stdout").read_text(errors="replace").splitlines()
            errors = [line for line in Path(folder, "stderr").read_text(errors="replace").splitlines() if line.strip()]
            return Rerun(tuple(lines), status, errors[-1] if errors and status else "", seen)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _become(self, schedule: Schedule | None, pairs: tuple[Pair, ...], folder: Path) -> None:
        status = 70
        try:
            os.setsid()
            os.chdir(self.folder)
            for name, number in (("stdout", 1), ("stderr", 2)):
                os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT), number)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            if schedule is not None:
                os.environ[record.REQUEST] = record.Request(str(folder / "record.json"), pairs).as_variable()
            options = Options(backend="sim", devices=self.options.devices, schedule=str(schedule or ""))

            def keep(report) -> int:
                (folder / "findings.json").write_text(json.dumps([of_finding(each) for each in report.findings]))
                return 0

            status = commands.run(self.prepared.program, options, keep)
        except BaseException:  # noqa: BLE001  the child must never return
            sys.excepthook(*sys.exc_info())
        finally:
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:
                    stream.flush()
            os._exit(status)


def _wait(child: int, deadline: float) -> int | None:
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def reruns_of(path: Path, devices: int = 2, limit: float = 60.0) -> ForkedReruns:
    """Return an object that runs a script repeatedly."""
    torch.set_num_threads(1)
    program = launcher.Program(str(path), (), False)
    return ForkedReruns(launcher.load(program), Options(backend="sim", devices=devices, proof_limit=limit))
