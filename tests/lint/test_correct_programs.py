"""Correct programs of which the linter once reported something: it reports no error and no warning in them.

The first line of each says why it is correct.
"""

from pathlib import Path

import pytest

from syncheck.lint.engine import lint_source
from syncheck.lint.files import Text
from syncheck.rules.model import Severity

FILES = sorted(Path(__file__).with_name("correct_programs").glob("*.txt"))


def test_there_are_enough_files():
    assert len(FILES) > 30


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_nothing_is_reported_in_a_correct_program(path):
    source = path.read_text(encoding="utf-8")
    assert source.startswith("# ")
    result = lint_source("m.py", Text(source))
    assert not result.problem, result.problem
    found = [(f.rule.code, f.location.frame.line) for f in result.findings if f.level is not Severity.ADVICE]
    assert found == []
