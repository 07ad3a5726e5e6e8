"""Intervals between clock readings. Those that miss a part of their work are tested with `RecentWork`."""

import pytest

from syncheck.lint.interp.clock_intervals import EarlyReadings, Launch


@pytest.mark.parametrize(
    ("operator", "is_quick", "is_short"),
    [
        ("aten::mul", False, True), ("aten::add_", False, True), ("aten::mm", False, False), ("aten::mm", True, True),
        ("aten::_foreach_lerp_", False, True), ("unknown code", False, False), ("c10d::allreduce_", False, False),
        ("aten::randn", False, True), ("aten::float", False, True), ("aten::linear", False, False),
    ],
)  # fmt: skip
def test_operators_that_are_short_compared_with_a_network(operator, is_quick, is_short):
    assert Launch(operator, is_quick, 0).is_short is is_short


def early(*steps, operator="aten::mm"):
    """Return what is found after some steps: "launch", "idle launch", "wait", or a reading's name with busy streams."""
    readings, idents, number = EarlyReadings(), {}, 0
    for step in steps:
        if "launch" in step:
            readings.launch(1, Launch(operator, False, number), 40 + number, is_idle="idle" in step)
            number += 1
        elif step == "wait":
            readings.synchronize()
        else:
            name, _, busy = step.partition(" ")
            idents[name] = len(idents) + 1
            readings.read(idents[name], 10 * idents[name], [1] if busy else [], number)
    readings.subtract(idents["a"], idents["b"])
    return readings.found


def test_an_interval_that_begins_while_earlier_work_is_running():
    assert early("launch", "launch", "a busy", "launch", "wait", "b") == {10: 41}


@pytest.mark.parametrize(
    "steps",
    [
        ("launch", "a", "launch", "wait", "b"),  # the host has waited
        ("launch", "a busy", "launch", "b busy"),  # the other end is wrong, too
        ("launch", "a busy", "wait", "b"),  # nothing but the earlier work is measured
        ("launch", "a busy", "launch", "wait", "launch", "b busy"),
        ("a", "launch", "wait", "b"),
        ("launch", "c busy", "a busy", "launch", "wait", "b"),  # another interval ends at c
    ],
)
def test_other_intervals(steps):
    assert early(*steps) == {}


def test_short_work_and_work_that_was_waited_for_before_does_not_count():
    assert early("launch", "a busy", "launch", "wait", "b", operator="aten::mul") == {}
    readings = EarlyReadings()
    readings.launch(1, Launch("aten::mm", False, 0), 41, is_idle=True)
    readings.launch(1, Launch("aten::mul", False, 1), 42, is_idle=True)
    readings.read(1, 10, [1], 2)
    readings.launch(1, Launch("aten::mm", False, 2), 43, is_idle=False)
    readings.synchronize()
    readings.read(2, 20, [], 3)
    readings.subtract(1, 2)
    assert readings.found == {}


def test_unknown_readings_are_ignored():
    readings = EarlyReadings()
    readings.subtract(1, 2)
    assert readings.found == {}
