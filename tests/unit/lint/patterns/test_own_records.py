"""Tensors recorded on the stream that allocates them."""

import textwrap

import pytest

from syncheck.lint.patterns.own_records import can_matter, findings
from syncheck.lint.source_file import SourceFile
from tests.unit.lint.checking import context_of

HELPER = """
import torch
from contextlib import nullcontext

class Layers:
    def __init__(self, parts, side=None):
        self.parts = parts
        self.side = side

    def _move(self, part, stored):
        part.data = stored.to("cuda", {flag})
        part.data.record_stream({recorded})

    def _move_all(self):
        for part, stored in self.parts:
            self._move(part, stored)

    def load(self):
        {before}
        context = nullcontext() if self.side is None else torch.cuda.stream(self.side)
        with {context}:
            {work}

    def other(self):
        {other}
"""
PARTS = {
    "flag": "non_blocking=True",
    "recorded": "torch.cuda.current_stream()",
    "before": "pass",
    "context": "context",
    "work": "self._move_all()",
    "other": "pass",
}
BLOCK = """
import torch

def load(x, side):
    {before}
    with torch.cuda.stream({entered}):
        {inside}
        y = {made}
        {record}
    return y
"""
LINES = {
    "before": "pass",
    "entered": "side",
    "inside": "pass",
    "made": "x.to('cuda', non_blocking=True)",
    "record": "y.record_stream(torch.cuda.current_stream())",
}


def found(source, known=()):
    file = SourceFile("program.py", textwrap.dedent(source))
    said = [(f.rule.code, f.location.frame.line, str(f.level)) for f in findings(context_of(file, known))]
    assert not said or can_matter(source)
    return said


def in_helper(**given):
    return bool(found(HELPER.format(**PARTS | given)))


def in_block(**given):
    return bool(found(BLOCK.format(**LINES | given)))


def test_a_helper_that_only_a_side_stream_calls_records_on_the_side_stream():
    assert found(HELPER.format(**PARTS)) == [("SYN201", 12, "warning")]


@pytest.mark.parametrize(
    "given",
    [
        {"recorded": "self.user"},
        {"flag": "torch.half"},
        {"context": "nullcontext()"},
        {"other": "self._move_all()"},
        {"other": "return self._move_all"},
        {"other": "return lambda: self._move_all()"},
        {"other": "self.side.wait_stream(torch.cuda.current_stream())"},
        {"other": "done.wait(self.side)"},
        {"work": "pass"},
    ],
)
def test_a_helper_may_protect_its_tensors(given):
    assert not in_helper(**given)


def test_a_helper_may_be_called_in_several_blocks():
    assert in_helper(other="with torch.cuda.stream(self.side):\n            self._move_all()")
    assert not in_helper(other="with torch.cuda.stream(torch.cuda.current_stream()):\n            self._move_all()")


def test_recursion_ends():
    assert not in_helper(other="pass", work="pass", before="self._move_all()")
    assert not found(HELPER.format(**PARTS).replace("self._move(part, stored)", "self._move_all()"))


def test_a_tensor_of_a_block_belongs_to_its_stream():
    assert found(BLOCK.format(**LINES)) == [("SYN201", 9, "warning")]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"made": "torch.empty(4, device='cuda')"}, True),
        ({"inside": "now = torch.cuda.current_stream()", "record": "y.record_stream(now)"}, True),
        ({"before": "now = torch.cuda.current_stream()", "record": "y.record_stream(now)"}, False),
        ({"made": "torch.empty(4)"}, False),
        ({"made": "x"}, False),
        ({"record": "x.record_stream(torch.cuda.current_stream())"}, False),
        ({"record": "y.record_stream(torch.cuda.current_stream()); y.record_stream(user)"}, False),
        ({"record": "y = f(y); y.record_stream(torch.cuda.current_stream())"}, False),
        ({"record": "y.record_stream()"}, False),
        ({"before": "side.wait_stream(user)"}, False),
        ({"entered": "main_stream"}, False),
        ({"entered": "torch.cuda.Stream()"}, False),
    ],
)
def test_only_the_streams_that_use_a_tensor_must_be_recorded(given, expected):
    assert in_block(**given) is expected


def test_a_known_finding_is_not_repeated():
    file = SourceFile("program.py", BLOCK.format(**LINES))
    known = list(findings(context_of(file)))
    assert list(findings(context_of(file, known))) == []
