"""Pinned slots that the host writes right before it waits for the last copy from them."""

import pytest

from syncheck.lint.patterns import late_host_waits
from syncheck.lint.source_file import SourceFile
from tests.unit.lint.checking import context_of

RING = """
def run(chunks, slots, sent, up, device):  # made with pin_memory=True
    for i, chunk in enumerate(chunks):
        k = i % 3
        {bind}
        {steps}
        copy = {slot}.to(device, non_blocking=True)
        sent[k] = up.record_event()
"""
PARTS = {"bind": "slot, event = slots[k], sent[k]", "slot": "slot"}


def found(steps, **parts):
    source = RING.format(steps=steps.replace("\n", "\n        "), **(PARTS | parts))
    if not late_host_waits.can_matter(source):
        return []
    file = SourceFile("file.py", source)
    return [(f.rule.code, f.location.frame.line) for f in late_host_waits.findings(context_of(file))]


@pytest.mark.parametrize(
    ("steps", "parts"),
    [
        ("slot.copy_(chunk)\nif event is not None:\n    event.synchronize()", {}),
        ("slot.copy_(chunk)\nevent.synchronize()", {}),
        ("slot[:] = chunk\nevent.synchronize()", {}),
        ("slots[k].copy_(chunk)\nsent[k].synchronize()", {"slot": "slots[k]"}),
    ],
)
def test_a_write_before_the_wait_for_the_same_slot_is_reported(steps, parts):
    assert found(steps, **parts) == [("SYN302", 6)]


@pytest.mark.parametrize(
    ("steps", "parts"),
    [
        ("event.synchronize()\nslot.copy_(chunk)", {}),
        ("slot.copy_(chunk, non_blocking=True)\nevent.synchronize()", {}),
        ("slot.copy_(chunk)\nother.synchronize()", {}),
        ("slot.copy_(chunk)\nevent.synchronize()", {"bind": "slot, event = slots[k], sent[k - 1]"}),
        ("slot.copy_(chunk)\nevent.synchronize()", {"slot": "chunk"}),
        ("total = slot.sum()\nevent.synchronize()", {}),
        ("slot.copy_(chunk)", {}),
    ],
)
def test_other_writes_are_not_reported(steps, parts):
    assert found(steps, **parts) == []
