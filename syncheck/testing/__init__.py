"""Test helpers for rules and models: check programs whose comments state the expected findings.

    from syncheck.testing import check_lint, check_run

    def test_a_copy_elsewhere_is_reported():
        check_lint("tests/gpu/copies.py", rules=["acme.rules"])

See `syncheck.testing.markers` for the comments: `# expect: SYN101` at the end of a line.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from syncheck.lint import engine
from syncheck.lint.extensions import Extensions
from syncheck.lint.files import decode
from syncheck.testing import markers

__all__ = ["check_lint", "check_run"]
_LIMIT_SECONDS = 600.0


def check_lint(path: str | os.PathLike[str], *, rules: Iterable[str] = (), models: Iterable[str] = ()) -> None:
    """Lint a file and compare the findings with its comments.

    Args:
        path: the file.
        rules: modules with the project's own rules.
        models: modules that describe libraries.

    Raises:
        AssertionError: there is an unexpected finding, or an expected one is missing.
        ConfigError: a module cannot be loaded.
        MarkerError: a comment is malformed, or names an unknown rule.
    """
    Extensions(tuple(rules), tuple(models), "").load()
    path = Path(path)
    expected = markers.read(path)
    result = engine.lint_source(str(path), decode(path.read_bytes(), str(path)))
    assert not result.problem, f"{path}: {result.problem}"
    found = Counter((finding.rule.code, finding.location.frame.line) for finding in result.findings)
    _compare(path, expected.lint, found)


def check_run(path: str | os.PathLike[str], *, models: Iterable[str] = (), devices: int = 0) -> None:
    """Run a program on simulated GPUs and compare its findings with its comments.

    Args:
        path: the program.
        models: modules that describe libraries.
        devices: number of GPUs; 0 to use the program's `# devices:` comment, or 1 without one.

    Raises:
        AssertionError: there is an unexpected finding, an expected one is missing, or the program could not be checked.
        MarkerError: a comment is malformed, or names an unknown rule.
    """
    path = Path(path).absolute()
    expected = markers.read(path)
    command = [sys.executable, "-m", "syncheck", "run", "--backend", "sim", "--output-format", "json"]
    command += ["--devices", str(devices or expected.devices), *(f"--models={name}" for name in models)]
    with tempfile.TemporaryDirectory(prefix="syncheck-") as folder:
        output = Path(folder) / "report.json"
        command += ["--output", str(output), str(path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_SECONDS, check=False)  # noqa: S603  the caller's own program
        assert output.exists(), f"{path} could not be checked:\n{done.stderr}"
        report = json.loads(output.read_text(encoding="utf-8"))
    found = Counter(
        (str(entry["rule"]), int(entry["line"]))
        for entry in report["findings"]
        if Path(entry["path"]).absolute() == path
    )
    _compare(path, expected.run, found)


def _compare(path: Path, expected: Counter[tuple[str, int]], found: Counter[tuple[str, int]]) -> None:
    missing = [
        f"line {line}: {code} is expected and was not found" for code, line in sorted((expected - found).elements())
    ]
    others = [
        f"line {line}: {code} was found and is not expected" for code, line in sorted((found - expected).elements())
    ]
    assert not missing + others, "\n".join([f"{path}:", *missing, *others])
