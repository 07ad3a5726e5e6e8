"""Events that stand for a caller's use of memory, but are recorded before it."""

import pytest

from syncheck.lint.patterns import records_before_use
from tests.unit.lint.program import reported

SOURCE = """
import contextlib
import torch


class Ring:
    def __init__(self, slots):
        self.side = torch.cuda.Stream()
        self.slots = slots

    def fill(self, slot, batch):
        self.side.wait_event(slot.used)
        with torch.cuda.stream(self.side):
            slot.data.copy_(batch, non_blocking=True)
            slot.filled.record(self.side)

    def next(self):
        slot = self.slots.popleft()
        main = torch.cuda.current_stream()
        main.wait_event(slot.filled)
        slot.used.record(main)
        self.last = slot
        return slot.data
"""
WAIT, RECORD, GIVE = "        main.wait_event(slot.filled)\n", "        slot.used.record(main)\n", "return slot.data"
LINE = 21


def found(*changes):
    return reported(SOURCE, changes, "before the caller can use")


@pytest.mark.parametrize(
    "changes",
    [
        [],
        [(WAIT, "        slot.filled.wait(main)\n")],
        [(RECORD, "        main.record_event(slot.used)\n")],
        [(GIVE, "yield slot.data")],
        [(GIVE, "return slot")],
        [("slot.filled)", "self.filled[slot])"), ("slot.used", "self.used[slot]")],
    ],
)
def test_an_event_recorded_right_after_the_wait_is_reported(changes):
    assert found(*changes) == [("SYN105", LINE)]


def test_the_body_of_a_context_manager_is_the_use():
    changes = [
        ("    def next", "    @contextlib.contextmanager\n    def next"),
        (RECORD, f"        self.point_to(slot)\n{RECORD}"),
    ]
    assert found(*changes, (GIVE, "yield self.layer")) == [("SYN105", LINE + 2)]
    assert found(*changes, (GIVE, f"yield self.layer\n{RECORD}")) == []  # recorded again


@pytest.mark.parametrize(
    "changes",
    [
        [(RECORD, "        self.last.used.record(main)\n")],  # of what the caller got before
        [(RECORD, f"        out = slot.data * 2\n        self.keep(out)\n{RECORD}")],  # the use is here
        [(GIVE, "return None")],
        [(RECORD, ""), (GIVE, f"yield slot.data\n{RECORD}")],
        [("        self.side.wait_event(slot.used)\n", "")],  # stands for nothing that a stream waits for
        [(RECORD, "        slot.filled.record(main)\n")],
        [(GIVE, "out = self.out.copy_(slot.data)\n        return slot")],
    ],
)
def test_nothing_is_reported_if_the_event_may_stand_for_other_work(changes):
    assert found(*changes) == []


def test_a_file_without_the_words_is_not_looked_at():
    assert records_before_use.can_matter(SOURCE)
    assert not records_before_use.can_matter("slot.used.record()")


RELEASE = """
import torch


class Ring:
    def __init__(self, slots):
        self.side, self.free = torch.cuda.Stream(), slots

    def push(self, batch):
        slot = self.free.popleft()
        self.side.wait_event(slot.used)
        with torch.cuda.stream(self.side):
            slot.data.copy_(batch, non_blocking=True)

    def release(self, slot):
        if slot.used is not None:
            slot.used.record(torch.cuda.current_stream())
        self.free.append(slot)


def run(ring, model):
    slot = ring.pop()
    ring.release(slot)
    output = model(slot.data)
    return ring
"""
HAND_BACK, USE = "    ring.release(slot)\n", "    output = model(slot.data)\n"


@pytest.mark.parametrize(
    "changes",
    [
        [],
        [("model(slot.data)", "model(x=slot.data)")],
        [("slot.used.record(torch.cuda.current_stream())", "torch.cuda.current_stream().record_event(slot.used)")],
    ],
)
def test_a_buffer_that_is_used_after_it_is_handed_back_is_reported(changes):
    assert reported(RELEASE, changes, "still uses it") == [("SYN105", 23)]


@pytest.mark.parametrize(
    "changes",
    [
        [(HAND_BACK + USE, USE + HAND_BACK)],
        [("    output", "    slot = ring.pop()\n    output")],
        [("model(slot.data)", "print(slot.data)")],
        [("slot.used.record(torch.cuda.current_stream())", "self.last.record()")],
        [("model(slot.data)", "model(slot.key)")],
        [("output = model(slot.data)", "side.wait_event(slot.used)")],
        [("def run", "class Other:\n    def release(self, slot): pass\n\n\ndef run")],
    ],
    ids=["release last", "another slot", "printed only", "no record", "a number", "the event", "two methods"],
)
def test_other_uses_of_a_buffer_are_not_reported(changes):
    assert reported(RELEASE, changes, "still uses it") == []
