"""Run fixtures on simulated or real GPUs and compare what it finds with what their markers expect."""

import json
import os
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
"""What CUDA and torch raise for a wrong synchronization; a bad fixture may end with it, and with nothing else."""

_RAISED = re.compile(r"(?:\w+\.)*(\w*(?:Error|Exception|Exit|Interrupt))(?::|$)")
_WORKER = Path(__file__).with_name("worker.py")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a fixture.

    Attributes:
        found: (code, line) -> number of findings with their primary place in the fixture.
        elsewhere: findings with their primary place in another file, as text.
        report: the whole report, as `--output-format json` prints it; empty if there is none.
        status: the program's own exit status.
        error: the last line of its standard error.
        timed_out: it was killed.
    """

    found: Counter[tuple[str, int]]
    elsewhere: tuple[str, ...]
    report: dict[str, Any]
    status: int
    error: str
    timed_out: bool


class Runner:
    """Runs fixtures, each once, on a backend: "sim" or "cuda", with GPUs of "cuda" or, simulated, "xpu"."""

    def __init__(self, backend: str, device_type: str = "cuda") -> None:
        self._backend = backend
        self._device_type = device_type
        self._outcomes: dict[Path, Outcome] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="syncheck-fixtures-")

    def outcome(self, path: Path, limit: float = LIMIT_SECONDS) -> Outcome:
        """Run a fixture, or return what came of it before.

        Raises:
            MarkerError: its markers are malformed.
        """
        known = self._outcomes.get(path)
        if known is None:
            known = self._outcomes[path] = self._run(path, limit)
        return known

    def _run(self, path: Path, limit: float) -> Outcome:
        folder = Path(self._folder.name).resolve() / str(len(self._outcomes))
        folder.mkdir()
        expected = markers.read(path)
        request = {"path": str(path), "devices": expected.devices, "ranks": expected.ranks}
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
                return _outcome(path, folder, 0, timed_out=True)
        return _outcome(path, folder, done.returncode, timed_out=False)

    def close(self) -> None:
        """Remove what the programs have written."""
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
    raised = [line for line in lines if _RAISED.match(line)]  # CUDA's own errors go on for some lines
    error = raised[-1] if raised else next((line for line in reversed(lines) if line.strip()), "")
    return Outcome(here, tuple(elsewhere), report, status, error, timed_out)


def smaller(source: str) -> str:
    """Return a program whose products of large matrices, which take a simulator seconds, are of smaller ones."""
    return re.sub(r"\b(2048|4096)\b", "256", source)


def problems(expected: markers.Expected, outcome: Outcome) -> list[str]:
    """Return, in words, all ways in which an outcome is not what the markers expect; none if it is right."""
    if outcome.timed_out:
        return ["it did not end in time and was killed"]
    if not outcome.report:
        return [f"there is no report; the last words were: {outcome.error}"]
    return [
        *_differences(expected.run - outcome.found, "is expected and was not found"),
        *_differences(outcome.found - expected.run, "was found and is not expected"),
        *(f"{where} is not expected" for where in outcome.elsewhere),
        *(f"the check is incomplete: {reason}" for reason in outcome.report["incomplete"] if not _is_hang(reason)),
        *_wrong_end(expected, outcome),
    ]


def _is_hang(reason: str) -> bool:
    """Return whether a report says no more than that ranks waited for each other, or died of that."""
    return "the job hangs" in reason or "the record has no end" in reason


def _differences(findings: Counter[tuple[str, int]], what: str) -> list[str]:
    return [f"line {line}: {code} {what}" for code, line in sorted(findings.elements(), key=lambda f: f[::-1])]


def _wrong_end(expected: markers.Expected, outcome: Outcome) -> list[str]:
    """Return why a program should not have ended as it did: a bad one may end with an error of CUDA."""
    match = _RAISED.match(outcome.error)
    raised = match[1] if match else ""
    if outcome.status == 0 or (expected.run and outcome.status == 1 and raised in CUDA_ERRORS):
        return []
    return [f"it ended with status {outcome.status}: {outcome.error}"]
