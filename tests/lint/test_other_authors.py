"""Known kinds of bugs in other authors' style: the linter reports each one, and nothing in its correct twin.

A file begins with the codes to report. Lines that end with `# bad` or `# good` belong to only one of the twins.
"""

from pathlib import Path

import pytest

from syncheck.lint.engine import lint_source
from syncheck.lint.files import Text
from syncheck.rules.model import Severity

FILES = sorted(Path(__file__).with_name("other_authors").glob("*.txt"))


def twin(path: Path, other: str) -> str:
    lines = path.read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if not line.endswith(f"# {other}")) + "\n"


def found(source: str) -> set[str]:
    result = lint_source("m.py", Text(source))
    assert not result.problem, result.problem
    return {finding.rule.code for finding in result.findings if finding.level is not Severity.ADVICE}


def test_there_are_enough_files():
    assert len(FILES) > 30


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_bug_is_reported_and_its_correct_twin_is_not(path):
    source = twin(path, "good")
    assert found(source) == set(source.partition("\n")[0].removeprefix("# ").split(", "))
    assert found(twin(path, "bad")) == set()
