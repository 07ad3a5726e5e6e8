"""Pinned slots that are filled again although the host never waits for their upload."""

import pytest

from syncheck.lint.patterns import unawaited_slots
from tests.unit.lint.checking import found_by

SOURCE = """
class Slot:
    def __init__(self):
        self.ids = torch.zeros(8, pin_memory=True)
        self.sent = torch.cuda.Event()
class Ring:
    def ship(self, slot, stream):
        {upload}
        {record}
        return x
    def pack(self, rows, stream):
        slot = self.take()
        {wait}
        {fill}
        {then}
"""
FILL = "slot.ids[:4] = rows"


def found(
    upload="x = slot.ids[:4].to(0, non_blocking=True)",
    record="slot.sent.record(stream)",
    wait="pass",
    fill=FILL,
    then="return self.ship(slot, stream)",
):
    return found_by(unawaited_slots, SOURCE.format(upload=upload, record=record, wait=wait, fill=fill, then=then))


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"fill": "slot.ids.copy_(rows)"},
        {"fill": "slot.ids[:2].zero_()"},
        {"upload": "self.x.copy_(slot.ids, non_blocking=True); x = self.x"},
        {"then": "x = slot.ids.cuda(non_blocking=True); slot.sent.record()"},
    ],
)
def test_the_refill_is_reported(given):
    assert found(**given) == [("SYN302", 14)]


@pytest.mark.parametrize(
    "given",
    [
        {"wait": "slot.sent.synchronize()"},
        {"wait": "torch.cuda.synchronize()"},
        {"wait": "while not slot.sent.query(): pass"},
        {"record": "self.losses = x.tolist(); slot.sent.record()"},
        {"record": "pass"},  # nothing says that the memory is used again
        {"upload": "x = slot.ids.to(0)"},
        {"fill": "slot.rows[:4] = rows"},
        {"then": "return slot"},
    ],
)
def test_waits_and_memory_that_is_not_uploaded_are_not_reported(given):
    assert found(**given) == []
