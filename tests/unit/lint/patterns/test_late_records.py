"""Events that one method waits for before another one records them."""

import textwrap

import pytest

from syncheck.lint.engine import lint_source
from syncheck.lint.files import Text
from syncheck.lint.patterns.late_records import can_matter

PROGRAM = """
import torch


class Pipeline:
    def __init__(self, weights, size):
        self.weights = weights
        self.n = len(weights)
        self.copies = torch.cuda.Stream()
        self.loaded = [torch.cuda.Event() for _ in weights]
        self.used = [torch.cuda.Event() for _ in weights]
        self.buffer = torch.empty(size, device="cuda")
        self.ring = torch.empty(2, size, device="cuda")
        self.own = [torch.empty(size, device="cuda") for _ in weights]
        self.compiled = torch.compile(self.compute)

    def load(self):
        with torch.cuda.stream(self.copies):
            for i in range(self.n):
                self.copies.wait_event(self.used[i])
                self.buffer.copy_(self.weights[i], non_blocking=True)
                self.loaded[i].record()

    def compute(self, x):
        for i in range(self.n):
            self.used[i].record()
            torch.cuda.current_stream().wait_event(self.loaded[i])
            x = torch.mm(x, self.buffer)
        return x

    def step(self, x):
        self.load()
        return self.compute(x)
"""
LINE = 20
SHARED = "self.buffer.copy_"
WAIT = "self.copies.wait_event(self.used[i])"
EARLIER = "self.copies.wait_event(self.used[i - 2])"
RECORD = "self.used[i].record()"
CALLS = "self.load()\n        return self.compute(x)"


def found(*changes):
    source = PROGRAM
    for old, new in changes:
        assert old in source
        source = source.replace(old, new)
    assert can_matter(source)
    result = lint_source("m.py", Text(textwrap.dedent(source)))
    assert not result.problem, result.problem
    return [
        (finding.rule.code, finding.location.frame.line)
        for finding in result.findings
        if "an earlier call" in finding.message
    ]


@pytest.mark.parametrize(
    "changes",
    [
        [],
        [(WAIT, "self.used[i].wait(self.copies)")],
        [(RECORD, "torch.cuda.current_stream().record_event(self.used[i])")],
        [(CALLS, "self.load()\n        return self.compiled(x)")],
        [(CALLS, "if self.n > 1:\n            self.load()\n        return self.compute(x)")],
        [(CALLS, "for _ in range(9):\n            self.load()\n            x = self.compute(x)\n        return x")],
        [(WAIT, EARLIER), (SHARED, "slot = i % 2\n                self.ring[slot].copy_")],
        [(WAIT, EARLIER)],
        [("def compute", "@torch.no_grad()\n    def compute")],
    ],
)
def test_a_wait_before_the_record_of_the_same_pass_is_reported(changes):
    assert found(*changes) == [("SYN105", LINE)]


def test_the_method_that_records_may_be_in_a_derived_class():
    split = ("\n    def compute", "\n\nclass Model(Pipeline):\n    def compute")
    assert found(split) == [("SYN105", LINE)]


@pytest.mark.parametrize(
    "changes",
    [
        # The records come first, or there is an order in which they may.
        [(CALLS, "x = self.compute(x)\n        self.load()\n        return x")],
        [
            (
                CALLS,
                "if self.n:\n            self.load()\n        else:\n            x = self.compute(x)\n        return x",
            )
        ],
        [(CALLS, "if self.n:\n            self.load()\n            return x\n        return self.compute(x)")],
        [("def step", "def prime(self, x):\n        return self.compute(x)\n\n    def step")],
        [("class Pipeline", "def main(model, x):\n    model.compute(x)\n\n\nclass Pipeline")],
        [("class Pipeline", "def main(model, x):\n    model.used[0].record()\n\n\nclass Pipeline")],
        [("self.load()", "self.used[0].record()\n        self.load()")],
        # One method does not run as a whole where it is called.
        [("self.load()", "threading.Thread(target=self.load).start()")],
        [("def load", "@in_background\n    def load")],
        [
            ("self.loaded[i].record()", "self.loaded[i].record()\n                yield i"),
            ("self.load()", "it = self.load()"),
        ],
        # Each iteration has its own memory, so that an event of the previous pass is the right one.
        [(SHARED, "self.own[i].copy_")],
        [(SHARED, "target = self.own[i]\n                target.copy_")],
        [(SHARED, "self.ring[i % 2].copy_")],
        [(SHARED, "self.next_slot().copy_")],
        [(SHARED, "self.ring[self.position].copy_")],
        [(SHARED, "self.buffer, self.spare = self.spare, self.buffer\n                self.buffer.copy_")],
        [(WAIT, EARLIER), (SHARED, "self.own[i].copy_")],
        # The other method does not use what is copied, or its records are unknown.
        [("wait_event(self.loaded[i])", "wait_stream(self.copies)")],
        [(RECORD, "self.kernel(x, self.used[i])")],
        # The stream waits for one event only, which the caller manages.
        [(WAIT, "self.copies.wait_event(self.used[0])")],
    ],
)
def test_other_waits_are_not_reported(changes):
    assert found(*changes) == []
