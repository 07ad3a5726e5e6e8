"""`--fix` never makes a program worse: a fixed program has no undefined names, runs, and lacks the fixed findings."""

import subprocess
from collections import Counter
from pathlib import Path

import markers
import pytest
from ruff.__main__ import find_ruff_bin
from simulated import CUDA_ERRORS, Outcome, Runner

from syncheck.lint.fixes.repair import repair
from syncheck.rules.catalogue import CATALOGUE

TESTS = Path(__file__).parents[1]
CODES = frozenset(rule.code for rule in CATALOGUE)
PROGRAMS = [*markers.fixtures(), *sorted(TESTS.glob("*/programs/*.py")), *sorted(TESTS.glob("docs/project/*.py"))]
NEEDS = {
    "blocking_wait.py": "# ranks: 2\n",
    "race.py": "# ranks: 2\n",
    "relay.py": "# ranks: 2\n",
    "time_of_first_rank.py": "# ranks: 2\n",
    "waits_twice.py": "# ranks: 2\n",
    "roots.py": "# ranks: 2\n",
    "three_steps.py": "# ranks: 2\n",
    "errors.py": "# devices: 2\n",
}
"""Headers that programs without markers need."""
NOT_RUN = {"race_spawned.py", "starts_the_others.py"}
"""Programs whose tests pass them something: a port."""


def name_of(path: Path) -> str:
    return path.relative_to(TESTS.parent).as_posix()


def undefined_names(path: Path) -> Counter[str]:
    """Return the names that ruff reports as undefined or as used before assignment."""
    command = [find_ruff_bin(), "check", "--isolated", "--select", "F821,F823"]
    printed = subprocess.run(
        [*command, "--output-format", "concise", str(path)], capture_output=True, text=True, check=False
    )
    return Counter(line.split(": ", 1)[1] for line in printed.stdout.splitlines() if ": F82" in line)


def serious(outcome: Outcome) -> Counter[str]:
    """Return the rules of a run's errors and warnings."""
    findings = outcome.report.get("findings", ())
    return Counter(finding["rule"] for finding in findings if finding["level"] != "advice")


@pytest.mark.slow
@pytest.mark.parametrize("path", PROGRAMS, ids=name_of)
def test_a_fixed_program_runs_and_is_clean(path: Path, simulator: Runner, tmp_path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    fixed = repair(str(path), source, unsafe=True, codes=CODES)
    if not fixed.findings:  # nothing to fix
        return
    after = tmp_path / path.name
    after.write_text(NEEDS.get(path.name, "") + fixed.source)
    undefined = undefined_names(after)
    assert not undefined or not undefined - undefined_names(path)
    if path.name in NOT_RUN:
        return
    expected = markers.read(path).run
    outcome = simulator.outcome(after)
    assert outcome.report, outcome.error
    assert outcome.status == 0 or (expected and any(name in outcome.error for name in CUDA_ERRORS)), outcome.error
    before = Counter(code for code, _ in expected.elements())
    repaired = Counter(finding.rule.code for finding in fixed.findings)
    assert not serious(outcome) - (before - repaired)


def test_most_programs_with_a_mistake_have_a_fix() -> None:
    sources = {path: path.read_text(encoding="utf-8") for path in markers.fixtures()}
    repaired = [path for path, text in sources.items() if repair(str(path), text, unsafe=True, codes=CODES).findings]
    assert len(repaired) > 120
