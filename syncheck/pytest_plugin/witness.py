"""Effects of a test's races: the test is rerun alone under `syncheck run --witness -m pytest`."""

import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from syncheck.commands.reruns import simulator_arguments
from syncheck.config.options import Options
from syncheck.findings import Finding
from syncheck.paths import relative_path
from syncheck.serialization import to_proof
from syncheck.system import processes
from syncheck.witness.proofs import Proof, ProofOutcome

Key = tuple[str, str, int, str]
"""Identity of a finding across runs: rule, path, line, message."""
_PASSED_ON = ("-p", "-c", "-o", "--override-ini", "--rootdir", "--confcutdir", "--import-mode")
"""Options of pytest that affect how a test is found and set up."""


class Witness:
    """Reruns one test to reproduce its races.

    Args:
        item: the test.
        options: the settings with which it was checked.
    """

    def __init__(self, item: pytest.Item, options: Options) -> None:
        self._simulator = simulator_arguments(options)
        self._limit = options.proof_limit
        self._folder = item.config.invocation_params.dir
        file, _, names = item.nodeid.partition("::")  # a parameter in the names may contain a slash
        test = f"{relative_path(item.config.rootpath / file, self._folder)}::{names}"
        arguments = _passed_on(list(map(str, item.config.invocation_params.args)))
        # without the last line of pytest, which differs in its duration
        self._test = ["-m", "pytest", *arguments, "--verbosity=-2", "-o", "syncheck=false", test]

    def prove(self, races: list[Finding]) -> list[Finding]:
        """Return the races with the results of the attempts to reproduce them."""
        try:
            proofs = self._proofs()
        except (OSError, ValueError, KeyError, TypeError) as error:
            failed = Proof(ProofOutcome.NOT_TRIED, "schedule", reason=f"the test could not be rerun: {error}")
            return [replace(race, proof=failed) for race in races]
        return [replace(race, proof=proofs.get(_key(race), _GONE)) for race in races]

    def _proofs(self) -> dict[Key, Proof]:
        """Run the test by itself, and again for each race; return the proofs."""
        with tempfile.TemporaryDirectory(prefix="syncheck-") as folder:
            path = Path(folder, "report.json")
            options = ["--isolated", "--quiet", "--exit-zero", "--witness", "--output-format", "json"]
            options += ["--output", str(path), "--proof-limit", str(self._limit), *self._simulator]
            command = [sys.executable, "-m", "syncheck", "run", *options, *self._test]
            done = processes.run_quietly(command, self._folder)
            if not path.exists():
                error_lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
                raise ValueError(error_lines[-1] if error_lines else f"it ended with status {done.returncode}")
            data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return {
            (found["rule"], found["path"], found["line"], found["message"]): to_proof(found["proof"])
            for found in data["findings"]
            if "proof" in found
        }


_GONE = Proof(ProofOutcome.NOT_TRIED, "schedule", reason="the test has no such race when it is run alone")


def _key(finding: Finding) -> Key:
    frame = finding.location.frame
    return finding.rule.code, frame.path, frame.line, finding.message


def _passed_on(arguments: list[str]) -> list[str]:
    """Return the pytest arguments that affect how a test is found and set up."""
    passed_on: list[str] = []
    for argument, value in zip(arguments, [*arguments[1:], ""], strict=True):
        if argument in _PASSED_ON:
            passed_on += [argument, value]
        elif argument.startswith(_PASSED_ON) and (not argument.startswith("--") or "=" in argument):
            passed_on.append(argument)
    return passed_on
