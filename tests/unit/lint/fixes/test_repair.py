"""Fixing files: a fix is kept if the linter then reports less and nothing new."""

import pytest

from syncheck.lint.engine import lint_source
from syncheck.lint.files import Text
from syncheck.lint.fixes import codemods
from syncheck.lint.fixes.repair import repair, repaired, with_ignore, with_ignores
from syncheck.rules.catalogue import CATALOGUE

ALL = frozenset(rule.code for rule in CATALOGUE)
RACE = """\
import torch
s = torch.cuda.Stream()
x = torch.ones(4, device="cuda")
with torch.cuda.stream(s):
    y = x * 2
"""
UNSYNCED = """\
import torch
h = torch.empty(4, pin_memory=True)
x = torch.ones(4, device="cuda")
h.copy_(x, non_blocking=True)
print(h.sum())
"""


def codes(source):
    return [finding.rule.code for finding in lint_source("a.py", Text(source)).findings]


def test_a_safe_fix_removes_the_finding():
    done = repair("a.py", RACE, unsafe=False, codes=ALL)
    assert [finding.rule.code for finding in done.findings] == ["SYN101"]
    assert codes(done.source) == []
    assert done.source.count("wait_stream") == 1
    assert repair("a.py", done.source, unsafe=False, codes=ALL).source == done.source


def test_known_findings_need_not_be_computed_again():
    known = lint_source("a.py", Text(RACE)).findings
    assert repair("a.py", RACE, unsafe=False, codes=ALL, known=known).findings == list(known)
    assert repair("a.py", RACE, unsafe=False, codes=ALL, known=()).source == RACE


def test_only_selected_rules_are_fixed():
    assert repair("a.py", RACE, unsafe=True, codes=frozenset({"SYN102"})).source == RACE


def test_an_unsafe_fix_is_applied_on_request():
    assert codes(UNSYNCED) == ["SYN301"]
    assert repair("a.py", UNSYNCED, unsafe=False, codes=ALL).source == UNSYNCED
    done = repair("a.py", UNSYNCED, unsafe=True, codes=ALL)
    assert "synchronize()" in done.source
    assert codes(done.source) == []


def test_a_single_finding_can_be_fixed():
    (finding,) = lint_source("a.py", Text(RACE)).findings
    changed = repaired("a.py", RACE, finding)
    assert codes(changed) == []
    assert repaired("a.py", changed, finding) is None


def test_a_fix_that_removes_no_finding_is_reverted(monkeypatch):
    monkeypatch.setattr(codemods, "apply", lambda source, edits: (source + "# changed\n", set(edits)))
    done = repair("a.py", RACE, unsafe=True, codes=ALL)
    assert (done.source, done.findings) == (RACE, [])


def test_findings_are_suppressed_by_comments():
    silenced, number = with_ignores("a.py", RACE, ALL)
    assert silenced == RACE.replace("y = x * 2", "y = x * 2  # syncheck: ignore[SYN101]")
    assert number == 1
    assert codes(silenced) == []
    assert with_ignores("a.py", RACE, frozenset({"SYN102"})) == (RACE, 0)


@pytest.mark.parametrize(
    "header", ["match y.sum():", "match (\n    y.sum()\n):", "match x:\n    case _ if y.sum():\n        pass"]
)
def test_findings_in_the_header_of_a_match_statement_are_suppressed(header):
    source = f"{RACE}{header}\n    case 2:\n        pass\n"
    silenced, number = with_ignores("a.py", source, ALL)
    assert number == 2
    assert codes(silenced) == []


@pytest.mark.parametrize("found", [{"SYN102", "SYN101"}])
def test_one_comment_names_all_rules_of_a_line(found):
    assert with_ignore("x = 1\n", {1: found}) == ("x = 1  # syncheck: ignore[SYN101, SYN102]\n", 1)
