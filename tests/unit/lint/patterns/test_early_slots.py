"""Pinned slots that are handed out before the wait for their last upload."""

import pytest

from syncheck.lint.patterns import early_slots
from tests.unit.lint.program import reported

SOURCE = """
import torch


class Staging:
    def __init__(self, size, n):
        self.gpu = torch.zeros(size, device="cuda")
        self.slots = [torch.zeros(size, pin_memory=True) for _ in range(n)]
        self.uploaded = [torch.cuda.Event() for _ in range(n)]
        self.current = 0

    def wait(self):
        event = self.uploaded[self.current]
        if event is not None:
            event.synchronize()

    def acquire(self):
        self.current = (self.current + 1) % len(self.slots)
        return self.slots[self.current].numpy()

    def commit(self, length):
        self.wait()
        self.gpu[:length].copy_(self.slots[self.current][:length], non_blocking=True)
        self.uploaded[self.current].record(torch.cuda.current_stream())
"""
WAIT = "        self.wait()\n"
LINE = 19


def found(*changes):
    return reported(SOURCE, changes, "`self.slots`")


@pytest.mark.parametrize(
    "changes",
    [
        [],
        [(".numpy()", "")],
        [(WAIT, "        self.uploaded[self.current].synchronize()\n"), ("    def wait(self)", "    def unused(self)")],
        [("self.uploaded[self.current].record", "event = self.uploaded[self.current]\n        event.record")],
    ],
)
def test_a_slot_that_is_handed_out_before_the_wait_is_reported(changes):
    if "unused" in str(changes):
        changes = [*changes, ("            event.synchronize()\n", "            print(event)\n")]
    assert found(*changes) == [("SYN302", LINE)]


@pytest.mark.parametrize(
    "changes",
    [
        [(WAIT, ""), ("        return self.slots", WAIT + "        return self.slots")],
        [("        return self.slots", WAIT + "        return self.slots")],
        [(", pin_memory=True", "")],
        [(", non_blocking=True", ", non_blocking=False")],
        [("return self.slots[self.current].numpy()", "return self.current")],
        [("        self.uploaded[self.current].record(torch.cuda.current_stream())\n", "")],
    ],
    ids=["wait before", "both wait", "not pinned", "blocking", "not handed out", "no record"],
)
def test_a_slot_that_may_be_free_is_not_reported(changes):
    assert found(*changes) == []


def test_only_files_with_pinned_memory_are_searched():
    assert early_slots.can_matter(SOURCE)
    assert not early_slots.can_matter(SOURCE.replace("pin_memory", "pinned"))
