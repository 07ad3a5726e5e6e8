"""Pinned memory that the host fills after it has only made a stream wait."""

import pytest

from syncheck.lint.patterns import host_writes
from syncheck.lint.source_file import SourceFile
from tests.unit.lint.checking import context_of

LOADER = """
import torch
class Loader:
    def __init__(self, stream):
        self.stream = stream
        self.copied = torch.cuda.Event()
        self.host = {made}
    def load(self, rows, out):
{body}
"""
BODY = """
part = self.host[:4]
{wait}
{write}
with torch.cuda.stream(self.stream):
    {send}
    {record}
"""
PARTS = {
    "wait": "self.copied.wait(self.stream)",
    "write": "part.uniform_()",
    "send": "out.copy_(part, non_blocking=True)",
    "record": "self.copied.record(self.stream)",
}


def found(made="torch.empty(8, pin_memory=True)", **parts):
    body = BODY.strip().format(**(PARTS | parts))
    source = LOADER.format(made=made, body="".join(f"        {line}\n" for line in body.split("\n")))
    if not host_writes.can_matter(source):
        return []
    file = SourceFile("file.py", source)
    return [(f.rule.code, f.location.frame.line) for f in host_writes.findings(context_of(file))]


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"wait": "self.stream.wait_event(self.copied)"},
        {"write": "part[0] = rows"},
        {"write": "self.host.copy_(rows)"},
        {"send": "out = part.to('cuda', non_blocking=True)"},
        {"record": "self.stream.record_event(self.copied)"},
        {"made": "torch.empty(8).pin_memory()"},
    ],
)
def test_a_refill_that_only_a_stream_waits_for_is_reported(parts):
    assert found(**parts) == [("SYN402", 10)]


@pytest.mark.parametrize(
    "parts",
    [
        {"wait": "self.copied.synchronize()"},
        {"wait": "self.other.wait(self.stream)"},
        {"wait": "while not self.copied.query(): pass"},
        {"write": "n = part.sum()"},
        {"write": "rows.uniform_()"},
        {"send": "out.copy_(part)"},
        {"send": "out.copy_(rows, non_blocking=True)"},
        {"record": "pass"},
        {"made": "torch.empty(8)"},
    ],
)
def test_other_refills_are_not_reported(parts):
    assert found(**parts) == []
