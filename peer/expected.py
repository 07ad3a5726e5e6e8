"""The expected outcomes of PyTorch's tests (`expected.toml`) and their differences from the actual ones."""

import json
import tomllib
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Outcome:
    """The outcome of a test itself, and the codes reported at a level that fails a test."""

    passed: bool = False
    skipped: bool = False
    failed: bool = False
    codes: set[str] = field(default_factory=set)
    why: str = ""


@dataclass
class Expected:
    """The contents of `expected.toml`.

    Attributes:
        suite: file -> expression that selects its tests, as for `pytest -k`.
        not_run: tests that are skipped.
        failing: tests that fail.
        unsteady: tests that may pass or fail.
        found: test -> codes of the rules reported for it.
        unchanged: file -> expression that selects its CPU tests, which should have the same outcome under a check.
        changed: CPU tests whose outcome differs under a check.
    """

    suite: dict[str, str]
    not_run: set[str]
    failing: set[str]
    unsteady: set[str]
    found: dict[str, set[str]]
    unchanged: dict[str, str]
    changed: set[str]


def read_expected(path: Path) -> Expected:
    """Read the list, in which each test must have a reason."""
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    groups = {"not_run": set(), "fails": set(), "unsteady": set(), "changed": set()}
    found = defaultdict(set)
    for entry in data["expected"]:
        if not entry["reason"].strip():
            raise SystemExit(f"{path}: {entry['tests']} without a reason")
        for test in entry["tests"]:
            if entry["outcome"] == "found":
                found[test] |= set(entry["codes"])
            else:
                groups[entry["outcome"]].add(test)
    return Expected(
        data["suite"],
        groups["not_run"],
        groups["fails"],
        groups["unsteady"],
        dict(found),
        data.get("unchanged", {}),
        groups["changed"],
    )


def read_outcomes(path: Path) -> tuple[list[str], dict[str, Outcome]]:
    """Return the collected tests and their outcomes."""
    collected, outcomes = [], defaultdict(Outcome)
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        entry = json.loads(line)
        if "collected" in entry:
            collected = entry["collected"]
            continue
        outcome = outcomes[entry["test"]]
        outcome.passed |= entry["passed"]
        outcome.skipped |= entry["skipped"]
        outcome.failed |= entry["failed"]
        outcome.codes |= set(entry["codes"])
        outcome.why = outcome.why or entry["why"]
    return collected, dict(outcomes)


def differences(expected: Expected, collected: list[str], outcomes: dict[str, Outcome]) -> list[str]:
    """Return the differences from the expected outcomes, one line each."""
    lines = [f"{test}: did not end" for test in collected if test not in outcomes]
    for test, outcome in outcomes.items():
        should_fail = test in expected.failing
        if outcome.failed and not should_fail and test not in expected.unsteady:
            lines.append(f"{test}: fails: {outcome.why}")
        if should_fail and not outcome.failed:
            lines.append(f"{test}: {'is skipped' if outcome.skipped else 'passes'}, and is expected to fail")
        wanted = expected.found.get(test, set())
        lines += [f"{test}: is reported for {code}" for code in sorted(outcome.codes - wanted)]
        lines += [f"{test}: is expected to be reported for {code}" for code in sorted(wanted - outcome.codes)]
    return lines


def changes(expected: Expected, plain: dict[str, Outcome], checked: dict[str, Outcome]) -> list[str]:
    """Return the tests that pass only without a check, or are listed as such but pass, one line each."""
    lines = []
    for test, outcome in plain.items():
        with_check = checked.get(test, Outcome())
        passes = with_check.passed and not with_check.failed
        if outcome.passed and not outcome.failed and passes == (test in expected.changed):
            lines.append(f"{test}: {'passes' if passes else 'passes without a check only: ' + with_check.why}")
    return lines


def unknown(expected: Expected, collected: list[str]) -> list[str]:
    """Return the listed tests that do not exist, one line each."""
    named = expected.failing | expected.unsteady | expected.changed | set(expected.found)
    return [f"{test}: there is no such test" for test in sorted(named - set(collected))]
