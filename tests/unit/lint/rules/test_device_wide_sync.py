"""SYN806 in source: a loop waits for the whole device right after recording an event for timing."""

import pytest

from syncheck.lint.rules.device_wide_sync import DeviceWideSync
from tests.unit.lint.rules.syntactic import findings, found, lines

LOOP = """\
for _ in range(10):
    start.record()
    work()
    {end}
    torch.cuda.synchronize()
    times.append(start.elapsed_time(stop))
"""


def test_a_device_wait_right_after_the_final_record_is_found():
    assert found(DeviceWideSync, LOOP.format(end="stop.record()")) == [(5, "torch.cuda.synchronize()")]


def test_the_message_names_the_event_to_wait_for():
    (finding,) = findings(DeviceWideSync, LOOP.format(end="stop.record()"))
    assert finding.rule.code == "SYN806"
    assert "`stop.synchronize()`" in finding.message


@pytest.mark.parametrize("backend", ["cuda", "torch.xpu", "torch.npu", "torch.accelerator"])
def test_other_spellings_of_the_device_wait_are_found(backend):
    source = LOOP.format(end="stop.record()").replace("torch.cuda.sync", f"{backend}.sync")
    assert lines(DeviceWideSync, source) == [5]


@pytest.mark.parametrize("end", ["stop.record(stream)", "start.record()"])
def test_either_event_on_any_stream_counts(end):
    assert lines(DeviceWideSync, LOOP.format(end=end)) == [5]


@pytest.mark.parametrize(
    "end",
    ["other.record()", "stop.record(); work()", "stop.record(); a = 1", "stop.record()\n    work()", "stop.reset()",
     "stop = record()", "record()"],
)  # fmt: skip
def test_only_a_wait_right_after_recording_a_timed_event_is_found(end):
    assert lines(DeviceWideSync, LOOP.format(end=end)) == []


@pytest.mark.parametrize("wait", ["stop.synchronize()", "torch.cuda.synchronize(1)", "x = torch.cuda.synchronize()"])
def test_other_waits_are_not_reported(wait):
    assert lines(DeviceWideSync, LOOP.format(end="stop.record()").replace("torch.cuda.synchronize()", wait)) == []


def test_events_without_elapsed_time_are_not_reported():
    assert lines(DeviceWideSync, LOOP.format(end="stop.record()").replace("elapsed_time", "query")) == []


def test_an_intended_wait_is_not_reported():
    source = """
for _ in range(10):
    with syncheck.allow_sync("logs"):
        stop.record()
        torch.cuda.synchronize()
    times.append(start.elapsed_time(stop))
"""
    assert lines(DeviceWideSync, source) == []


def test_a_wait_outside_of_a_loop_is_not_reported():
    source = LOOP.format(end="stop.record()").replace("for _ in range(10):", "if True:")
    assert lines(DeviceWideSync, source) == []


def test_statements_on_the_same_line_are_checked():
    source = "for _ in y:\n    stop.record(); torch.cuda.synchronize()\n    start.elapsed_time(stop)\n"
    assert lines(DeviceWideSync, source) == [2]


@pytest.mark.parametrize("block", ["if late:", "with torch.no_grad():"])
def test_blocks_inside_the_loop_are_checked(block):
    inner = f"{block}\n        stop.record()\n        torch.cuda.synchronize()"
    assert lines(DeviceWideSync, LOOP.format(end="work()").replace("torch.cuda.synchronize()", inner)) == [7]


def test_a_wait_in_nested_loops_is_found_once():
    inner = LOOP.format(end="with block:\n        stop.record()\n        torch.cuda.synchronize()")
    source = "for epoch in epochs:\n" + "".join(f"    {line}\n" for line in inner.splitlines())
    assert lines(DeviceWideSync, source) == [7]


def test_a_block_in_an_inner_loop_may_record_for_an_outer_loop():
    source = """
        for epoch in epochs:
            for x in data:
                with block:
                    stop.record()
                    torch.cuda.synchronize()
            start.elapsed_time(stop)
    """
    assert lines(DeviceWideSync, source) == [6]
