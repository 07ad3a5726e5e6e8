"""PyTorch's own tests on simulated GPUs, checked, against the list of what is expected (`make peer`).

Each file runs in a process of its own. What passes, fails or is reported, and is not in `expected.toml`, is shown, and
the exit status is 1.
"""

import os
import subprocess
import sys
from pathlib import Path

from expected import differences, read_expected, read_outcomes, unknown
from source import unpacked

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parent / ".peer"
PACKAGES = ("expecttest==0.3.0", "psutil==7.2.2")
"""What PyTorch's tests need, and syncheck's do not."""
LIMIT = 300
"""Seconds for one test."""


def main(files: list[str]) -> int:
    expected = read_expected(HERE / "expected.toml")
    tests = unpacked(FOLDER)
    packages = _packages()
    lines, every_collected = [], []
    for file, chosen in expected.suite.items():
        if files and file not in files:
            continue
        outcomes_path = FOLDER / f"{file}.jsonl"
        outcomes_path.unlink(missing_ok=True)
        _run(file, chosen, tests, packages, outcomes_path, expected.not_run)
        collected, outcomes = read_outcomes(outcomes_path)
        every_collected += collected
        if not collected:
            lines.append(f"{file}: no test was collected")
        _show(file, outcomes)
        lines += differences(expected, collected, outcomes)
    if not files:
        lines += unknown(expected, every_collected)
    print(*lines, f"{len(lines)} not as expected" if lines else "all as expected", sep="\n")
    return bool(lines)


def _packages() -> Path:
    target = FOLDER / "packages"
    if not target.exists():
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", target, *PACKAGES]
        subprocess.run(install, check=True)
    return target


def _run(file: str, chosen: str, tests: Path, packages: Path, outcomes: Path, not_run: set[str]) -> None:
    """Run one file; its output goes to a file of its own."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(HERE.parent), str(HERE), str(packages)]),
        "PEER_OUTCOMES": str(outcomes),
    }
    options = ["-p", "outcomes", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=short", f"--timeout={LIMIT}"]
    options += [
        "--syncheck",
        "--syncheck-backend=sim",
        "--syncheck-devices=2",
        "--rootdir",
        str(tests),
        "-c",
        os.devnull,
    ]
    options += ["-k", chosen, *(f"--deselect={test}" for test in sorted(not_run))]
    print(f"{file} ...", flush=True)
    with outcomes.with_suffix(".log").open("w", encoding="utf-8") as log:
        subprocess.run(
            [sys.executable, "-m", "pytest", *options, file],
            check=False,  # what the outcomes say counts
            cwd=tests,
            env=environment,
            stdout=log,
            stderr=log,
        )


def _show(file: str, outcomes: dict) -> None:
    ended = outcomes.values()
    passed = sum(outcome.passed and not outcome.failed and not outcome.codes for outcome in ended)
    reported = sum(bool(outcome.codes) and not outcome.failed for outcome in ended)
    skipped = sum(outcome.skipped and not outcome.failed for outcome in ended)
    failed = sum(outcome.failed for outcome in ended)
    print(f"{file}: {passed} pass, {failed} fail, {reported} are reported, {skipped} are skipped", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
