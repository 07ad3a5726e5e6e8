"""Events that are unpacked together with the memory that they stand for, and ignored."""

import pytest

from syncheck.lint.patterns import unpacked_events
from tests.unit.lint.program import reported

SOURCE = """
from collections import deque
import torch

class Swapper:
    def __init__(self, cache, host):
        self.cache, self.host, self.swap = cache, host, torch.cuda.Stream()
        self.free, self.leaving = deque(), deque()

    def reclaim(self):
        while self.leaving:
            done, blocks = self.leaving.popleft()
            self.free.extend(blocks)

    def allocate(self, n):
        if len(self.free) < n:
            self.reclaim()
        return [self.free.popleft() for _ in range(n)]

    def swap_out(self, blocks):
        self.swap.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.swap):
            self.host.copy_(self.cache, non_blocking=True)
            done = torch.cuda.Event()
            done.record(self.swap)
        self.leaving.append((done, blocks))
"""
POP = "            done, blocks = self.leaving.popleft()\n"
RECORD = "            done = torch.cuda.Event()\n            done.record(self.swap)\n"


def found(*changes):
    return reported(SOURCE, changes, "and ignored")


@pytest.mark.parametrize(
    "changes",
    [
        [],
        [("done, blocks = self", "_, blocks = self")],
        [(RECORD, "            done = self.swap.record_event()\n")],
        [("(done, blocks))", "(blocks, done))"), ("done, blocks = self", "blocks, done = self")],
    ],
)
def test_an_ignored_event_is_reported(changes):
    assert found(*changes) == [("SYN105", 12)]


@pytest.mark.parametrize(
    "changes",
    [
        [(POP, POP + "            torch.cuda.current_stream().wait_event(done)\n")],
        [(POP, POP + "            done.synchronize()\n")],
        [("self.reclaim()", "self.swap.synchronize()\n            self.reclaim()")],
        [("while self.leaving:", "while self.leaving and self.leaving[0][0].query():")],
        [("self.free.extend(blocks)", "pass")],
        [("(done, blocks))", "(n, blocks))"), ("blocks):", "blocks, n):")],
        [("def allocate", "def wait(self):\n        for done, _ in self.leaving: done.wait()\n    def allocate")],
        [
            (
                "def allocate",
                "def last(self):\n        done, _ = self.leaving.pop()\n        return done\n    def allocate",
            )
        ],
    ],
)
def test_an_event_that_something_may_wait_for_is_not_reported(changes):
    assert not found(*changes)


def test_files_that_keep_no_events_do_not_matter():
    assert unpacked_events.can_matter(SOURCE)
    assert not unpacked_events.can_matter(SOURCE.replace(".append((done, blocks))", ".append(blocks)"))
