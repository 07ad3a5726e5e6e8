"""Linting a fixture gives exactly the findings that its markers expect, and its fixes leave none."""

from collections import Counter
from functools import cache
from pathlib import Path

import markers
import pytest

from syncheck.lint.engine import lint_source
from syncheck.lint.files import Text
from syncheck.lint.fixes.repair import repair
from syncheck.lint.source_file import SourceFile
from syncheck.rules.catalogue import CATALOGUE

PATHS = markers.fixtures()
CODES = frozenset(rule.code for rule in CATALOGUE)


@cache
def lint(path: Path, source: str):
    result = lint_source(path.name, Text(source))
    assert not result.problem
    return result.findings


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.relative_to(markers.ROOT).as_posix())
def test_the_linter_finds_what_the_markers_expect(path: Path) -> None:
    found = Counter((f.rule.code, f.location.frame.line) for f in lint(path, path.read_text(encoding="utf-8")))
    assert found == markers.read(path).lint


def test_the_linter_finds_nearly_everything_a_run_finds() -> None:
    """The lines may differ: a write through numpy is only noticed at the next wait, and reported there."""
    expected = [markers.read(path) for path in PATHS]
    n_run = sum(each.run.total() for each in expected)
    n_both = sum((_rules(each.run) & _rules(each.lint)).total() for each in expected)
    assert n_both > 0.8 * n_run


def _rules(findings: Counter[tuple[str, int]]) -> Counter[str]:
    """Return how often each rule occurs, without the lines."""
    return Counter(rule for rule, _ in findings.elements())


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.relative_to(markers.ROOT).as_posix())
def test_a_fix_adds_no_findings_and_changes_no_other_lines(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    fixed = repair(path.name, source, unsafe=True, codes=CODES)
    before, after = (
        Counter(f.rule.code for f in lint(path, source)),
        Counter(f.rule.code for f in lint(path, fixed.source)),
    )
    assert before - after == Counter(f.rule.code for f in fixed.findings)
    assert not after - before
    edits = {edit for finding in fixed.findings for edit in finding.fix.edits}
    assert len(set(source.splitlines()) - set(fixed.source.splitlines())) <= len(edits)
    again = repair(path.name, fixed.source, unsafe=True, codes=CODES)
    assert again.source == fixed.source


def test_most_missing_waits_have_a_fix() -> None:
    wanted, repaired = 0, 0
    for path in PATHS:
        source = path.read_text(encoding="utf-8")
        wanted += sum(f.rule.code in {"SYN101", "SYN102", "SYN402", "SYN403", "SYN201"} for f in lint(path, source))
        repaired += len(repair(path.name, source, unsafe=False, codes=CODES).findings)
    assert repaired > wanted / 2


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.relative_to(markers.ROOT).as_posix())
def test_every_reported_location_is_that_of_a_libcst_node(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    definitions = SourceFile(path.name, source).definitions
    frames = [location.frame for finding in lint(path, source) for location in (finding.location, *finding.related)]
    for frame in filter(lambda frame: frame.line, frames):
        definition = definitions.at(frame.line)
        assert definition is not None
        assert definition.node_at(frame.line, frame.column - 1, frame.end_line, frame.end_column - 1) is not None
