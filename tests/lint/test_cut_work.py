"""Shortcuts that save time change no finding in a sample of the installed torch package and in the fixtures."""

import importlib.util
from pathlib import Path

import markers
import pytest

from syncheck.lint import analysis
from syncheck.lint.interp.passed_branches import PassedBranches
from syncheck.lint.prefilter import can_matter
from syncheck.lint.source_file import SourceFile

EVERY = 40
LARGEST = 60_000


def sample() -> list[Path]:
    torch = importlib.util.find_spec("torch")
    assert torch is not None
    assert torch.origin is not None
    files = sorted(Path(torch.origin).parent.rglob("*.py"))
    return [path for path in files if path.stat().st_size < LARGEST][::EVERY] + markers.fixtures()[::4]


def codes(path: Path, *, is_thorough: bool = False) -> list[tuple[str, int]]:
    source = SourceFile(str(path), path.read_text(encoding="utf-8"))
    found = analysis.Analysis(source, is_thorough=is_thorough).findings()
    return [(finding.rule.code, finding.location.frame.line) for finding in found]


def test_the_analysis_without_shortcuts_finds_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    paths = sample()
    short = {path: codes(path) if can_matter(path.read_bytes()) else [] for path in paths}
    monkeypatch.setattr(analysis.Analysis, "_has_anchor_word", lambda self, node: True)
    monkeypatch.setattr(analysis, "does_more_than_define", lambda body, has_anchor_word: True)
    monkeypatch.setattr(PassedBranches, "is_idle", lambda self, body, scope: False)
    assert {path: codes(path, is_thorough=True) for path in paths} == short
    assert sum(map(len, short.values())) > 20
