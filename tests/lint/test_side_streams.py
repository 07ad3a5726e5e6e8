"""Streams stored in an object whose methods do not order them against their callers' streams."""

import textwrap

import pytest

from syncheck.lint.engine import lint_source
from syncheck.lint.files import Text

CLASS = """
import torch


class Service{base}:
    def __init__(self):
        self.stream = torch.cuda.Stream()
        self.pairs = []

    def submit(self, source, target):
        self.pairs.append((source, target))

    def run(self):
        {fork}
        with torch.cuda.stream(self.stream):
            {work}
        {join}
"""
COPY = "for source, target in self.pairs: target.copy_(source, non_blocking=True)"
LOAD = "self.shard.to(self.device, non_blocking=True)"
FORK = "self.stream.wait_stream(torch.cuda.current_stream())"
JOIN = "torch.cuda.current_stream().wait_stream(self.stream)"


def found(source):
    result = lint_source("m.py", Text(textwrap.dedent(source)))
    assert not result.problem, result.problem
    return [(f.rule.code, f.level, f.location.frame.line) for f in result.findings]


@pytest.mark.parametrize(("work", "join"), [(COPY, JOIN), (LOAD, "pass")])
def test_a_stream_not_ordered_with_the_callers_is_reported(work, join):
    source = CLASS.format(base="(torch.nn.Module)", fork="pass", work=work, join=join)
    assert found(source) == [("SYN105", "warning", 15)]


@pytest.mark.parametrize(
    ("base", "fork", "work", "join"),
    [
        ("", FORK, COPY, JOIN),
        ("", "pass", LOAD, JOIN),  # the source comes from the host or from a loader
        ("", "pass", COPY + "\n            torch.cuda.current_stream().wait_event(self.ready)", JOIN),
        ("", "pass", COPY, "torch.cuda.synchronize()"),
        ("", "pass", LOAD, "self.hand_over(self.stream)"),
        ("", "pass", LOAD, "return self.stream"),
        ("", "pass", LOAD, "self.done = self.stream.record_event()"),
        ("", "pass", LOAD + "\n            self.done.record()", "pass"),
        ("", "pass", "x = self.loss.to('cpu').item()", "pass"),
        ("(Base)", "pass", LOAD, "pass"),  # the base class is unknown
        ("", "pass", "print(self.shard)", "pass"),
    ],
)
def test_a_stream_that_is_ordered_or_passed_on_is_not_reported(base, fork, work, join):
    assert not found(CLASS.format(base=base, fork=fork, work=work, join=join))


def test_a_stream_provided_by_the_caller_is_not_reported():
    source = CLASS.format(base="", fork="pass", work=LOAD, join="pass")
    assert not found(source.replace("torch.cuda.Stream()", "get_stream()"))
    assert not found(source.replace("        self.pairs = []", "        self.stream = self.stream or other"))


EXPERTS = """
import torch

class Experts:
    def __init__(self, hosts, n):
        self.stream = torch.cuda.Stream()
        self.hosts, self.slots, self.done = hosts, {}, torch.cuda.Event()
        self.buffer = torch.zeros(n, 1024, device="cuda")
        torch.cuda.synchronize()

    def fetch(self, layer, expert, old):
        FORK
        with torch.cuda.stream(self.stream):
            self.swap(layer, expert, old)
            self.done.record()
        torch.cuda.current_stream().wait_event(self.done)

    def swap(self, layer, expert, old):
        slot = self.slots.pop(old)
        self.buffer[slot].copy_(self.hosts[layer][expert], non_blocking=True)
        self.slots[expert] = slot
"""


def test_a_slot_of_a_buffer_may_be_in_use_when_the_stream_fills_it_again():
    assert found(EXPERTS.replace("FORK", "pass")) == [("SYN105", "warning", 20)]
    assert found(EXPERTS.replace("FORK", FORK)) == []
    assert found(EXPERTS.replace("FORK", "torch.cuda.synchronize()")) == []
