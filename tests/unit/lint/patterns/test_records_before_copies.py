"""Events that are recorded before the last copy that they stand for."""

import pytest

from syncheck.lint.patterns import records_before_copies
from tests.unit.lint.program import reported

SOURCE = """
import torch


class Slot:
    def __init__(self, n):
        self.boxes = torch.empty(n, 6, pin_memory=True)
        self.counts = torch.empty(n, dtype=torch.int64, pin_memory=True)
        self.landed = torch.cuda.Event()


def send(slot, boxes, counts):
    slot.boxes[:8].copy_(boxes, non_blocking=True)
    slot.landed.record()
    slot.counts[:8].copy_(counts, non_blocking=True)


def receive(slot):
    slot.landed.synchronize()
    return slot.boxes[:8].numpy(), slot.counts[:8].tolist()
"""
RECORD = "    slot.landed.record()\n"
COPY = "    slot.counts[:8].copy_(counts, non_blocking=True)\n"
LINE = 14


def found(*changes):
    return reported(SOURCE, changes, "which it stands for")


def in_block(body):
    return "    with torch.cuda.stream(side):\n" + "".join(f"    {line}\n" for line in body.splitlines())


@pytest.mark.parametrize(
    "changes",
    [
        [],
        [(RECORD, "    if slot.landed is not None:\n        slot.landed.record()\n")],
        [(RECORD, "    slot.landed.record(torch.cuda.current_stream())\n")],
        [("landed.synchronize()", "landed.query()")],
        [(COPY, "    target = slot.counts[:8]\n    target.copy_(counts, non_blocking=True)\n")],
        [(COPY, "    for i in range(8):\n        slot.counts[i].copy_(counts[i], non_blocking=True)\n")],
    ],
)
def test_a_copy_to_host_memory_after_the_record_is_reported(changes):
    is_guarded = "is not None" in str(changes)
    assert found(*changes) == [("SYN105", LINE + is_guarded)]


@pytest.mark.parametrize(
    "record", ["slot.landed.record()", "slot.landed.record(side)", "side.record_event(slot.landed)"]
)
def test_the_record_and_the_copy_may_be_in_a_block_on_a_side_stream(record):
    block = in_block(f"    {record}\n{COPY}")
    assert found((RECORD + COPY, block), ("def send(slot,", "def send(slot, side,")) == [("SYN105", LINE + 1)]


@pytest.mark.parametrize(
    "changes",
    [
        [(RECORD + COPY, COPY + RECORD)],
        [(COPY, COPY + RECORD)],  # recorded again
        [(RECORD, "    slot.landed.record(torch.cuda.Stream())\n")],  # work of another stream
        [(RECORD, RECORD + "    slot.landed.synchronize()\n")],  # stands for the copy before
        [(COPY, "    other.counts[:8].copy_(counts, non_blocking=True)\n"), ("counts):", "counts, other):")],
        [(COPY, "    slot.counts[:8].copy_(counts)\n")],
        [(COPY, in_block(COPY)), ("def send(slot,", "def send(slot, side,")],  # not on the stream of the event
        [("slot.landed.synchronize()", "torch.cuda.current_stream().wait_event(slot.landed)")],
        [(", slot.counts[:8].tolist()", ", slot.counts")],
    ],
)
def test_nothing_is_reported_if_the_event_may_stand_for_other_work(changes):
    assert found(*changes) == []


def test_a_file_without_the_words_is_not_looked_at():
    assert records_before_copies.can_matter(SOURCE)
    assert not records_before_copies.can_matter("slot.ready.record()\nslot.host.copy_(x)")


UPLOAD = """
import torch


class Buffer:
    def __init__(self, slots):
        self.side, self.slots, self.store = torch.cuda.Stream(), slots, {}

    def write(self, host, rows):
        for name, store in self.store.items():
            store[:rows].copy_(host[name][:rows], non_blocking=True)

    def add(self, slot, chunk, rows):
        slot.sent.synchronize()
        slot.host[:rows] = chunk
        with torch.cuda.stream(self.side):
            slot.sent.record(self.side)
            self.write(slot.host, rows)
"""
SENT, WRITE = "            slot.sent.record(self.side)\n", "            self.write(slot.host, rows)\n"


@pytest.mark.parametrize(
    "changes",
    [
        [],
        [("self.write(slot.host, rows)", "self.store.copy_(slot.host, non_blocking=True)")],
        [("self.write(slot.host, rows)", "self.last = slot.host.to('cuda', non_blocking=True)")],
    ],
)
def test_an_event_recorded_before_the_copies_from_its_memory_is_reported(changes):
    assert reported(UPLOAD, changes, "before the copy from `slot.host`") == [("SYN105", 17)]


@pytest.mark.parametrize(
    "changes",
    [
        [(SENT + WRITE, WRITE + SENT)],
        [("        slot.sent.synchronize()\n", "")],
        [(SENT, "            self.prepare()\n" + SENT)],
        [(", non_blocking=True)", ", non_blocking=False)")],
        [(WRITE, WRITE + SENT)],
    ],
    ids=["record last", "host does not wait", "after other work", "blocking", "recorded again"],
)
def test_other_records_beside_uploads_are_not_reported(changes):
    assert reported(UPLOAD, changes, "before the copy from") == []
