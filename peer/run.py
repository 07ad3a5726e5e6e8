"""Runs PyTorch's own tests under a check on simulated GPUs and compares the outcomes with a list (`make peer`).

Each file runs in a separate process. Outcomes and reported rules that differ from `expected.toml` are printed, and the
exit status is then 1. Other files run on the CPU without and with a check: tests that pass without must pass with it.
"""

import os
import subprocess
import sys
from pathlib import Path

from expected import Expected, Outcome, changes, differences, read_expected, read_outcomes, unknown
from source import unpacked

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parent / ".peer"
PACKAGES = ("expecttest==0.3.0", "psutil==7.2.2")
"""Packages that PyTorch's tests need and syncheck's do not."""
LIMIT = 300
"""Timeout of one test in seconds."""
CHECKED = ("--syncheck", "--syncheck-backend=sim", "--syncheck-devices=2")


def main(files: list[str]) -> int:
    expected = read_expected(HERE / "expected.toml")
    tests = unpacked(FOLDER)
    packages = _packages()
    lines, every_collected = [], []
    for file, chosen in expected.suite.items():
        if files and file not in files:
            continue
        options = [*CHECKED, "-k", chosen, *(f"--deselect={test}" for test in sorted(expected.not_run))]
        collected, outcomes = _run(file, options, tests, packages)
        every_collected += collected
        if not collected:
            lines.append(f"{file}: no test was collected")
        _show(file, outcomes)
        lines += differences(expected, collected, outcomes)
    for file, chosen in expected.unchanged.items():
        if not files or file in files:
            collected, found = _run_twice(file, chosen, tests, packages, expected)
            every_collected += collected
            lines += found
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


def _run_twice(file: str, chosen: str, tests: Path, packages: Path, expected: Expected) -> tuple[list[str], list[str]]:
    """Run one file on the CPU, without and with a check. Return its tests and the differences."""
    on_cpu = {"PYTORCH_TESTING_DEVICE_ONLY_FOR": "cpu"}
    collected, plain = _run(file, ["-p", "no:syncheck", "-k", chosen], tests, packages, on_cpu)
    _, checked = _run(file, [*CHECKED, "-k", chosen], tests, packages, on_cpu)
    n_passed = sum(outcome.passed and not outcome.failed for outcome in plain.values())
    found = changes(expected, plain, checked)
    print(f"{file}: {n_passed} pass without a check, {len(found)} do not end as expected with one", flush=True)
    return collected, found if n_passed else [f"{file}: no test passed"]


def _run(
    file: str, options: list[str], tests: Path, packages: Path, variables: dict[str, str] | None = None
) -> tuple[list[str], dict[str, Outcome]]:
    """Run one file with its output in a log file. Return its tests and their outcomes."""
    outcomes = FOLDER / f"{file}.jsonl"
    outcomes.parent.mkdir(parents=True, exist_ok=True)
    outcomes.unlink(missing_ok=True)
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(HERE.parent), str(HERE), str(packages)]),
        "PEER_OUTCOMES": str(outcomes),
    }
    environment |= variables or {}
    always = ["-p", "outcomes", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=short", f"--timeout={LIMIT}"]
    always += ["--rootdir", str(tests), "-c", os.devnull]
    print(f"{file} ...", flush=True)
    with outcomes.with_suffix(".log").open("w", encoding="utf-8") as log:
        subprocess.run(
            [sys.executable, "-m", "pytest", *always, *options, file],
            check=False,  # only the outcomes count
            cwd=tests,
            env=environment,
            stdout=log,
            stderr=log,
        )
    return read_outcomes(outcomes)


def _show(file: str, outcomes: dict) -> None:
    ended = outcomes.values()
    passed = sum(outcome.passed and not outcome.failed and not outcome.codes for outcome in ended)
    reported = sum(bool(outcome.codes) and not outcome.failed for outcome in ended)
    skipped = sum(outcome.skipped and not outcome.failed for outcome in ended)
    failed = sum(outcome.failed for outcome in ended)
    print(f"{file}: {passed} pass, {failed} fail, {reported} are reported, {skipped} are skipped", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
