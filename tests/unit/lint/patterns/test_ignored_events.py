"""Items that are taken into use again without a wait for their event."""

import pytest

from syncheck.lint.patterns import ignored_events
from tests.unit.lint.program import reported

SOURCE = """
from collections import deque
from dataclasses import dataclass
import torch


@dataclass
class Draining:
    blocks: list
    done: torch.cuda.Event


class Store:
    def __init__(self):
        self.side = torch.cuda.Stream()
        self.draining, self.free = deque(), deque()

    def collect(self):
        while self.draining and self.draining[0].done.query():
            self.free.extend(self.draining.popleft().blocks)

    def allocate(self, count):
        self.collect()
        while len(self.free) < count and self.draining:
            drain = self.draining.popleft()
            self.free.extend(drain.blocks)
        return [self.free.popleft() for _ in range(count)]

    def fill(self, count):
        self.side.wait_stream(torch.cuda.current_stream())
        return self.allocate(count)
"""
POP, USE = "            drain = self.draining.popleft()\n", "            self.free.extend(drain.blocks)\n"
LINE = 25


def found(*changes):
    return reported(SOURCE, changes, "used without a wait")


@pytest.mark.parametrize(
    "changes",
    [
        [],
        [("self.draining.popleft()\n            self", "self.draining.pop()\n            self")],
        [(".done.query()", ".done.synchronize() is None")],
    ],
)
def test_an_item_whose_event_is_ignored_is_reported(changes):
    assert found(*changes) == [("SYN105", LINE)]


@pytest.mark.parametrize(
    "changes",
    [
        [(USE, "            torch.cuda.current_stream().wait_event(drain.done)\n" + USE)],
        [(USE, "            self.side.synchronize()\n" + USE)],
        [(USE, "            self.reuse(drain)\n")],
        [(USE, "            drain.count += 1\n")],
        [("        self.side.wait_stream(torch.cuda.current_stream())\n", "        torch.cuda.synchronize()\n")],
        [(".done.query()", ".count")],
        [("done: torch.cuda.Event", "done: Future")],
    ],
    ids=["waits", "host waits", "handed on", "not used", "caller waits", "never tested", "no GPU event"],
)
def test_an_item_that_may_be_complete_is_not_reported(changes):
    assert found(*changes) == []


def test_only_files_that_test_events_are_searched():
    assert ignored_events.can_matter(SOURCE)
    assert not ignored_events.can_matter(SOURCE.replace(".query()", ".count"))
