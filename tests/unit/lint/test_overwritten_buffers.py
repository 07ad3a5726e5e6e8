"""Buffers that a block on a side stream overwrites while another stream may still read them."""

import ast

import pytest

from syncheck.lint.overwritten_buffers import overwritten_buffer
from syncheck.lint.patterns.side_streams import findings
from syncheck.lint.source_file import SourceFile
from tests.unit.lint.checking import context_of

SOURCE = """
class Pages:
    def __init__(self, n):
        self.side = torch.cuda.Stream()
        self.pool = torch.zeros(n, 16, device="cuda")

    def fill(self, slot, rows):
        {before}
        with torch.cuda.stream(self.side):
            made = rows.to(self.device, non_blocking=True)
            {write}

    def read(self, slots):
        {join}
        {use}
        {after}

    def other(self):
        {other}
"""
PARTS = {
    "before": "pass",
    "write": "self.pool[slot].copy_(made)",
    "join": "torch.cuda.current_stream().wait_stream(self.side)",
    "use": "out = self.pool[slots]",
    "after": "return out",
    "other": "pass",
}


def found(**given):
    """Return the findings in a class, some of whose parts are given."""
    file = SourceFile("program.py", SOURCE.format(**PARTS | given))
    return [
        (f.location.frame.line, f.message, [other.frame.line for other in f.related])
        for f in findings(context_of(file))
    ]


def test_a_stream_must_wait_for_the_readers_of_what_it_overwrites():
    ((line, message, related),) = found()
    assert (line, related) == (11, [15])
    assert message == "stream `self.side` never waits for the streams that read `self.pool`, which it overwrites here"


@pytest.mark.parametrize(
    "given",
    [
        {"before": "self.side.wait_stream(torch.cuda.current_stream())"},
        {"before": "torch.cuda.synchronize()"},
        {"other": "self.pool = self.pool.clone()"},
        {"other": "self.side.wait_event(self.read_done)"},
        {"write": "self.pool[slot] = made"},
        {"write": "self.pool.record_stream(user)"},
        {"write": "made.zero_()"},
        {"use": "out = self.others[slots]"},
        {"use": "out = self.pool.shape"},
        {"use": "out = self.pool"},
        {"use": "out = pool[slots]"},
        {"use": "with torch.cuda.stream(self.side):\n            out = self.pool[slots]"},
        {"after": "return out.cpu()"},
        {"join": "pass", "after": "torch.cuda.current_stream().wait_stream(self.side)"},
    ],
)
def test_a_buffer_may_be_safe(given):
    assert found(**given) == []


@pytest.mark.parametrize(
    ("write", "use"),
    [
        ("self.pool.zero_()", "out = self.pool.sum()"),
        ("self.pool.index_copy_(0, slot, made)", "out = gather(self.pool, slots)"),
        ("self.pool[slot, :4].copy_(made)", "out = self.pool * 2"),
    ],
)
def test_writes_and_reads_have_several_forms(write, use):
    assert len(found(write=write, use=use)) == 1


def test_a_block_that_writes_no_attribute_overwrites_nothing():
    kind = ast.parse("class A:\n    def f(self):\n        with stream(s):\n            pass").body[0]
    assert overwritten_buffer(kind, kind.body[0].body[0], []) is None
