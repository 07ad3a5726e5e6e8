"""Runs a program again, in a process of its own, and returns what it computed."""

import os
import shlex
import subprocess
import sys
import tempfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path

from syncheck.config.options import Options
from syncheck.errors import ConfigError, RecordError
from syncheck.run.launcher import PreparedProgram
from syncheck.system import processes
from syncheck.witness import record
from syncheck.witness.compare import Rerun
from syncheck.witness.delay import Delay
from syncheck.witness.schedule import Pair, Schedule

_SETTINGS = {"PYTHONHASHSEED": "0", "CUDA_MODULE_LOADING": "EAGER", "NCCL_RUNTIME_CONNECT": "0"}
"""Environment of a run. String hashes are fixed. Kernels are loaded at the start, and NCCL connects the ranks when it
creates a communicator: otherwise the first use of a kernel or connection makes the host wait.

Source:
    CUDA C++ Programming Guide, "Lazy Loading", "Concurrent Execution": loading a kernel may require context
    synchronization; NCCL's documentation, "Environment Variables", `NCCL_RUNTIME_CONNECT`.
"""
_TRACEBACK = "Traceback (most recent call last):"


def program_id(prepared: PreparedProgram) -> int:
    """Return the checksum of a program and its arguments, which a schedule carries."""
    text = "\0".join((os.path.basename(prepared.program.target), *prepared.program.arguments)).encode(
        "utf-8", "replace"
    )
    if prepared.path is not None and os.path.isfile(prepared.path):
        text += Path(prepared.path).read_bytes()
    return zlib.crc32(text) & 0xFFFFFF


def exception_in(lines: list[str]) -> str:
    """Return the line of the last traceback that names the exception; "" if there is no traceback."""
    headers = [number for number, line in enumerate(lines) if line.endswith(_TRACEBACK)]
    frames = lines[headers[-1] + 1 :] if headers else []
    return next((line for line in frames if not line.startswith(" ")), "")


def reason_in(lines: list[str]) -> str:
    """Return the last line that is no hint; "" if there is none."""
    return next((line for line in reversed(lines) if not line.startswith("  hint: ")), "")


def check_schedule(schedule: Schedule | Delay | None, prepared: PreparedProgram) -> None:
    """Check that a schedule, if there is one, is that of a program.

    Raises:
        ConfigError: it is of another one, or of other arguments, or the program has changed.
    """
    if schedule is not None and schedule.program != program_id(prepared):
        raise ConfigError(
            f"the schedule {str(schedule)!r} is not of this program",
            "a schedule holds for one program, unchanged, and its arguments: make it anew with --witness or --confirm",
        )


def simulator_arguments(options: Options) -> list[str]:
    """Return what a command line has to have for the same simulated GPUs, and the same models of libraries."""
    usual = Options()
    kind = ["--device-type", options.device_type] if options.device_type != usual.device_type else []
    devices = ["--devices", str(options.devices)] if options.devices != usual.devices else []
    return ["--backend", "sim", *devices, *kind, *_models(options)]


def _models(options: Options) -> list[str]:
    return [word for name in options.models for word in ("--models", name)]


@dataclass(slots=True)
class Reruns:
    """Runs a program again.

    Args:
        prepared: the program.
        options: those of the first run.
    """

    prepared: PreparedProgram
    options: Options
    folder: str = field(default_factory=os.getcwd)
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))

    @property
    def program(self) -> int:
        """The program's checksum."""
        return program_id(self.prepared)

    def run(self, schedule: Schedule | Delay, pairs: tuple[Pair, ...] = ()) -> Rerun:
        """Run the program by a schedule; `pairs`: the accesses of which the values are of interest."""
        with tempfile.TemporaryDirectory(prefix="syncheck-") as folder:
            path = Path(folder, "record.json")
            request = record.Request(str(path), pairs, self.options.root).as_variable()
            environment = self.environment | _SETTINGS | {record.REQUEST: request}
            try:
                limit = self.options.proof_limit or None
                done = processes.run_quietly(self._command(schedule), self.folder, environment, limit)
            except subprocess.TimeoutExpired:
                return Rerun((), 0, "", timed_out=True)
            return self._rerun(done, str(path))

    def _rerun(self, done: subprocess.CompletedProcess[bytes], file: str) -> Rerun:
        output = done.stdout.decode("utf-8", "replace").splitlines()
        errors = [line for line in done.stderr.decode("utf-8", "replace").splitlines() if line.strip()]
        n_ranks = max(1, self.options.nproc)
        try:
            records = tuple(record.read(Path(record.file_of_rank(file, rank))) for rank in range(n_ranks))
        except RecordError:
            records = ()
        for rank in range(self.options.nproc):
            output += [f"[rank {rank}] {line}" for line in record.lines_of_rank(file, rank)]
        last, exception = (reason_in(errors), exception_in(errors)) if done.returncode else ("", "")
        return Rerun(tuple(output), done.returncode, last, records, exception=exception)

    def command_for(self, schedule: Schedule | Delay) -> str:
        """Return the command that runs the program by a schedule, as people write it."""
        return shlex.join(["syncheck", "run", *self._by_schedule(schedule)])

    def _command(self, schedule: Schedule | Delay) -> list[str]:
        return [
            sys.executable, "-m", "syncheck", "run", "--isolated", "--quiet", "--exit-zero", "--third-party", "off",
            "--no-witness", "--no-confirm", "--schedules", "0", "--output", os.devnull, *self._by_schedule(schedule),
        ]  # fmt: skip

    def _by_schedule(self, schedule: Schedule | Delay) -> list[str]:
        """Return the arguments for the GPUs, the ranks, the schedule and the program."""
        options, program = self.options, self.prepared.program
        is_real = isinstance(schedule, Delay)
        gpus = ["--backend", "cuda", *_models(options)] if is_real else simulator_arguments(options)
        ranks = ["--nproc", str(options.nproc)] if options.nproc else []
        target = ["-m", program.target] if program.is_module else [program.target]
        return [*ranks, *gpus, "--schedule", str(schedule), *target, *program.arguments]
