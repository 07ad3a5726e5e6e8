"""Every rule has a pair of examples and variants, and every folder of examples belongs to a rule."""

import difflib
from pathlib import Path

import markers
import pytest

from syncheck.commands.rules import sources
from syncheck.rules import page
from syncheck.rules.catalogue import CATALOGUE
from syncheck.rules.model import Rule

OTHER_FOLDERS = {"seeds", "bugs", "traces"}
RUN_RULES = [rule for rule in CATALOGUE if "run" in sources(rule)]
MAX_CHANGED_LINES = 5


def _bad_files() -> list[Path]:
    bad = (path for path in markers.fixtures() if path.name.startswith("bad"))
    return [path for path in bad if path.parent.name not in OTHER_FOLDERS]


def _good_files() -> list[Path]:
    return [path for path in markers.fixtures() if path.name.startswith("good")]


def _name(path: Path) -> str:
    return path.relative_to(markers.ROOT).as_posix()


@pytest.mark.parametrize("rule", RUN_RULES, ids=lambda rule: rule.name)
def test_each_rule_has_a_pair_of_examples_and_two_variants(rule: Rule) -> None:
    names = {path.name for path in (markers.ROOT / rule.name).glob("*.py")}
    assert {"bad.py", "good.py"} <= names
    assert sum(name.startswith("bad_") for name in names) >= 2


@pytest.mark.parametrize("rule", RUN_RULES, ids=lambda rule: rule.name)
def test_the_bad_and_good_examples_are_a_minimal_pair(rule: Rule) -> None:
    bad, good = (example.source.splitlines() for example in page.examples(rule))
    assert 0 < changed_lines(bad, good) <= MAX_CHANGED_LINES


def changed_lines(before: list[str], after: list[str]) -> int:
    """Return the number of lines added, removed or replaced, counting a replaced line once."""
    opcodes = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return sum(max(i2 - i1, j2 - j1) for tag, i1, i2, j1, j2 in opcodes if tag != "equal")


@pytest.mark.parametrize(
    ("before", "after", "count"),
    [("abc", "abc", 0), ("abc", "aXc", 1), ("abc", "ac", 1), ("ab", "axyb", 2), ("a", "", 1)],
)
def test_a_replaced_line_counts_once(before: str, after: str, count: int) -> None:
    assert changed_lines(list(before), list(after)) == count


@pytest.mark.parametrize("path", _bad_files(), ids=_name)
def test_a_bad_example_expects_its_own_rule(path: Path) -> None:
    codes = {rule.code for rule in CATALOGUE if rule.name == path.parent.name}
    assert codes <= markers.read(path).codes


@pytest.mark.parametrize("path", _good_files(), ids=_name)
def test_a_good_example_expects_nothing(path: Path) -> None:
    assert markers.read(path).codes == frozenset()


def test_folders_are_named_after_rules() -> None:
    folders = {path.name for path in markers.ROOT.iterdir() if path.is_dir()}
    assert folders <= {rule.name for rule in CATALOGUE} | OTHER_FOLDERS


def test_examples_are_directly_in_their_folder_and_named_good_or_bad() -> None:
    for path in markers.fixtures():
        assert path.parent.parent == markers.ROOT, path
        if path.parent.name not in OTHER_FOLDERS:
            assert path.stem in {"bad", "good"} or path.stem.startswith(("bad_", "good_")), path
