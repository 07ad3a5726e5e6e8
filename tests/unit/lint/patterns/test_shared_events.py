"""Lists that repeat one event."""

import pytest

from syncheck.lint.patterns import shared_events
from syncheck.lint.source_file import SourceFile
from tests.unit.lint.checking import context_of

PIPELINE = """
import torch
class Pipeline:
    def __init__(self, n):
        self.done = {made}
    def run(self, stage, stream):
        {wait}
        {record}
"""
PARTS = {
    "made": "[torch.cuda.Event()] * n",
    "wait": "stream.wait_event(self.done[stage - 1])",
    "record": "self.done[stage].record(stream)",
}


def found(**parts):
    source = PIPELINE.format(**(PARTS | parts))
    if not shared_events.can_matter(source):
        return []
    file = SourceFile("file.py", source)
    return [(f.rule.code, f.location.frame.line) for f in shared_events.findings(context_of(file))]


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"made": "n * [torch.cuda.Event(enable_timing=True)]"},
        {"made": "[torch.Event('cuda')] * 4"},
        {"wait": "self.done[0].synchronize()"},
        {"record": "stream.record_event(self.done[stage])"},
    ],
)
def test_a_list_of_one_repeated_event_is_reported(parts):
    assert found(**parts) == [("SYN405", 5)]


@pytest.mark.parametrize(
    "parts",
    [
        {"made": "[torch.cuda.Event() for _ in range(n)]"},
        {"made": "[torch.cuda.Event()] * 1"},
        {"made": "[make()] * n  # Event()"},
        {"wait": "pass"},
        {"record": "self.done[stage] = stream.record_event()"},
    ],
)
def test_other_lists_are_not_reported(parts):
    assert found(**parts) == []
