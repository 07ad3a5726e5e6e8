"""Runs fixtures on simulated or real GPUs and compares the findings with their markers."""

import hashlib
import json
import os
import pickle
import re
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import markers

from tests import warm

LIMIT_SECONDS = 60.0
CUDA_ERRORS = frozenset({"RuntimeError", "ValueError", "AcceleratorError", "OutOfMemoryError"})
"""Exceptions that CUDA and torch raise for wrong synchronization. A bad fixture may end with one of them, no others."""

_RAISED = re.compile(r"(?:\w+\.)*(\w*(?:Error|Exception|Exit|Interrupt))(?::|$)")
_WORKER = Path(__file__).with_name("worker.py")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of running a fixture.

    Attributes:
        found: (code, line) -> number of findings whose primary location is in the fixture.
        elsewhere: findings whose primary location is in another file, as text.
        report: the whole report, as printed by `--output-format json`; empty if there is none.
        status: the program's own exit status.
        error: the last line of its standard error.
        timed_out: whether it was killed for taking too long.
    """

    found: Counter[tuple[str, int]]
    elsewhere: tuple[str, ...]
    report: dict[str, Any]
    status: int
    error: str
    timed_out: bool


class Runner:
    """Runs each fixture once on a backend, "sim" or "cuda", with GPUs of type "cuda" or, simulated, "xpu".

    The simulator gets fixtures with smaller matrix products.

    Args:
        backend: "sim" or "cuda".
        device_type: "cuda" or "xpu".
        shared: a folder in which other processes find the outcomes, too.
    """

    def __init__(self, backend: str, device_type: str = "cuda", shared: Path | None = None) -> None:
        self._backend = backend
        self._device_type = device_type
        self._shared = shared
        self._outcomes: dict[Path, Outcome] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="syncheck-fixtures-")

    def outcome(self, path: Path, limit: float = LIMIT_SECONDS) -> Outcome:
        """Run a fixture, or return the result of its earlier run.

        Raises:
            MarkerError: its markers are malformed.
        """
        known = self._outcomes.get(path)
        if known is None:
            known = self._outcomes[path] = self._shared_outcome(path, limit)
        return known

    def _shared_outcome(self, path: Path, limit: float) -> Outcome:
        """Run a fixture unless another process has run one with the same name and source."""
        if self._shared is None:
            return self._run(path, limit)
        key = hashlib.sha256(f"{path.name}\n{path.read_text(encoding='utf-8')}".encode()).hexdigest()
        file = self._shared / f"{self._backend}-{self._device_type}-{key}"
        if file.exists():
            return pickle.loads(file.read_bytes())
        outcome = self._run(path, limit)
        self._shared.mkdir(exist_ok=True)
        written = file.with_suffix(f".{os.getpid()}")
        written.write_bytes(pickle.dumps(outcome))
        written.replace(file)
        return outcome

    def _run(self, path: Path, limit: float) -> Outcome:
        folder = Path(self._folder.name).resolve() / str(len(self._outcomes))
        folder.mkdir()
        expected = markers.read(path)
        program = self._program(path, folder)
        request = {"path": str(program), "devices": expected.devices, "ranks": expected.ranks}
        request |= {"backend": self._backend, "device_type": self._device_type}
        command = [warm.PYTHON, str(_WORKER), json.dumps(request)]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        with open(folder / "stdout", "wb") as stdout, open(folder / "stderr", "wb") as stderr:
            try:
                done = subprocess.run(
                    command, cwd=folder, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, timeout=limit,
                    env=environment, check=False,
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                return _outcome(program, folder, 0, timed_out=True)
        return _outcome(program, folder, done.returncode, timed_out=False)

    def _program(self, path: Path, folder: Path) -> Path:
        """Return the path of the program to run: the fixture, or a copy with smaller matrix products."""
        source = path.read_text(encoding="utf-8")
        made_smaller = smaller(source)
        if self._backend != "sim" or made_smaller == source:
            return path
        copy = folder / path.name
        copy.write_text(made_smaller, encoding="utf-8")
        return copy

    def close(self) -> None:
        """Remove the files that the programs wrote."""
        self._folder.cleanup()


def _outcome(path: Path, folder: Path, status: int, *, timed_out: bool) -> Outcome:
    written = folder / "report.json"
    report = json.loads(written.read_text(encoding="utf-8")) if written.exists() else {}
    here, elsewhere = Counter[tuple[str, int]](), []
    for finding in report.get("findings", ()):
        if (folder / finding["path"]).resolve() == path.resolve():
            here[finding["rule"], finding["line"]] += 1
        else:
            elsewhere.append(f"{finding['rule']} at {finding['path']}:{finding['line']}")
    lines = (folder / "stderr").read_text(encoding="utf-8", errors="replace").split("\n")
    raised = [line for line in lines if _RAISED.match(line)]  # CUDA error messages span several lines
    error = raised[-1] if raised else next((line for line in reversed(lines) if line.strip()), "")
    return Outcome(here, tuple(elsewhere), report, status, error, timed_out)


def smaller(source: str) -> str:
    """Return a program with its large square matrices, whose products take seconds to simulate, made smaller."""
    return re.sub(r"\b(2048|4096), \1\b", "256, 256", source)


def problems(expected: markers.Expected, outcome: Outcome) -> list[str]:
    """Return descriptions of all differences between an outcome and the markers; none if they agree."""
    if outcome.timed_out:
        return ["it did not end in time and was killed"]
    if not outcome.report:
        return [f"there is no report; the last words were: {outcome.error}"]
    return [
        *_differences(expected.run - outcome.found, "is expected and was not found"),
        *_differences(outcome.found - expected.run, "was found and is not expected"),
        *(f"{where} is not expected" for where in outcome.elsewhere),
        *(f"the check is incomplete: {reason}" for reason in outcome.report["incomplete"] if not _is_end(reason)),
        *_wrong_end(expected, outcome),
    ]


def _is_end(reason: str) -> bool:
    """Return whether a reason only says how a program ended: by an exception, or as ranks waited for each other."""
    return any(words in reason for words in ("the program failed", "the job hangs", "the record has no end"))


def _differences(findings: Counter[tuple[str, int]], what: str) -> list[str]:
    return [f"line {line}: {code} {what}" for code, line in sorted(findings.elements(), key=lambda f: f[::-1])]


def _wrong_end(expected: markers.Expected, outcome: Outcome) -> list[str]:
    """Return why a program's end is wrong, if it is. A bad program may end with a CUDA error."""
    match = _RAISED.match(outcome.error)
    raised = match[1] if match else ""
    if outcome.status == 0 or (expected.run and outcome.status == 1 and raised in CUDA_ERRORS):
        return []
    return [f"it ended with status {outcome.status}: {outcome.error}"]
