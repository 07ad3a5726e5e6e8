"""SYN806 in source: a loop waits for the whole device directly after it has recorded an event that it times."""

import pytest

from syncheck.lint.rules.device_wide_sync import DeviceWideSync
from tests.unit.lint.rules.shape import findings, found, lines

LOOP = """\
for _ in range(10):
    start.record()
    work()
    {end}
    torch.cuda.synchronize()
    times.append(start.elapsed_time(stop))
"""


def test_a_wait_for_the_device_behind_the_record_of_the_end_is_found():
    assert found(DeviceWideSync, LOOP.format(end="stop.record()")) == [(5, "torch.cuda.synchronize()")]


def test_the_message_names_what_is_to_be_waited_for():
    (finding,) = findings(DeviceWideSync, LOOP.format(end="stop.record()"))
    assert finding.rule.code == "SYN806"
    assert "`stop.synchronize()`" in finding.message


@pytest.mark.parametrize("backend", ["cuda", "torch.xpu", "torch.npu", "torch.accelerator"])
def test_other_spellings_wait_for_the_device_too(backend):
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
def test_only_a_wait_directly_behind_the_record_of_a_timed_event_is_found(end):
    assert lines(DeviceWideSync, LOOP.format(end=end)) == []


@pytest.mark.parametrize("wait", ["stop.synchronize()", "torch.cuda.synchronize(1)", "x = torch.cuda.synchronize()"])
def test_another_wait_is_right(wait):
    assert lines(DeviceWideSync, LOOP.format(end="stop.record()").replace("torch.cuda.synchronize()", wait)) == []


def test_events_that_are_not_timed_are_recorded_for_their_order():
    assert lines(DeviceWideSync, LOOP.format(end="stop.record()").replace("elapsed_time", "query")) == []


def test_a_wait_outside_of_a_loop_costs_little():
    source = LOOP.format(end="stop.record()").replace("for _ in range(10):", "if True:")
    assert lines(DeviceWideSync, source) == []


def test_statements_that_share_a_line_are_looked_at():
    source = "for _ in y:\n    stop.record(); torch.cuda.synchronize()\n    start.elapsed_time(stop)\n"
    assert lines(DeviceWideSync, source) == [2]


@pytest.mark.parametrize("block", ["if late:", "with torch.no_grad():"])
def test_blocks_in_the_loop_are_looked_at(block):
    inner = f"{block}\n        stop.record()\n        torch.cuda.synchronize()"
    assert lines(DeviceWideSync, LOOP.format(end="work()").replace("torch.cuda.synchronize()", inner)) == [7]


def test_in_loops_inside_of_loops_a_wait_is_found_once():
    inner = LOOP.format(end="with block:\n        stop.record()\n        torch.cuda.synchronize()")
    source = "for epoch in epochs:\n" + "".join(f"    {line}\n" for line in inner.splitlines())
    assert lines(DeviceWideSync, source) == [7]


def test_a_block_of_an_inner_loop_may_record_what_an_outer_one_reads():
    source = """
        for epoch in epochs:
            for x in data:
                with block:
                    stop.record()
                    torch.cuda.synchronize()
            start.elapsed_time(stop)
    """
    assert lines(DeviceWideSync, source) == [6]
