"""Side streams that wait in only one of two branches."""

import pytest

from syncheck.lint.patterns.branch_forks import can_matter, findings
from syncheck.lint.source_file import SourceFile
from tests.unit.lint.checking import context_of

SWAP = """import torch
def swap_out(self, caches, blocks):
    compute = torch.cuda.current_stream()
    {before}
    if {test}:
        sources = {first}
    else:
        sources = [cache.index_select(0, blocks) for cache in caches]
        {wait}
    {between}
    with torch.cuda.stream(self.side):
        {work}
"""
PARTS = {
    "before": "pass", "test": "self.are_adjacent(blocks)", "first": "[cache[:4] for cache in caches]",
    "wait": "self.side.wait_stream(compute)", "between": "pass", "work": "self.copy(sources)",
}  # fmt: skip


def found(**changes):
    source = SourceFile("a.py", SWAP.format(**PARTS | changes))
    assert can_matter(source.text)
    return list(findings(context_of(source)))


def test_a_wait_in_one_of_two_branches():
    (finding,) = found()
    assert (finding.rule.code, finding.location.frame.line) == ("SYN105", 11)
    assert "`sources` in only one of two branches" in finding.message
    assert finding.help == "move `self.side.wait_stream(compute)` below the branches, so that both wait"


def test_the_current_stream_need_not_have_a_name():
    assert len(found(wait="self.side.wait_stream(torch.cuda.current_stream())")) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"before": "self.side.wait_stream(compute)"},
        {"between": "self.side.wait_stream(compute)"},
        {"between": "torch.cuda.synchronize()"},
        {"work": "self.side.wait_stream(compute); self.copy(sources)"},
        {"work": "self.copy(caches)"},
        {"test": "caches[0].is_cuda"},
        {"first": "[cache.cpu() for cache in caches]"},
        {"first": "[cache.pin_memory() for cache in caches]"},
        {"wait": "self.other.wait_stream(compute)"},
        {"wait": "self.side.wait_stream(self.other)"},
        {"first": "[cache[:4] for cache in caches]; return None"},
    ],
)
def test_no_report(changes):
    assert found(**changes) == []
