"""Races as findings: one per missing edge, and those caused by a context that does not apply."""

import pytest

from syncheck.hb.clock import HOST
from syncheck.hb.ids import Context
from syncheck.sanitizer.messages import EventCode
from tests.unit.sanitizer.program import Program

FAR = 2
"""A stream on another device."""


def related(program, code):
    (finding,) = (found for found in program.report().findings if found.rule.code == code)
    return finding.location.frame.line, [location.frame.line for location in finding.related], finding.count


def test_of_several_races_of_one_operation_the_most_ordering_edge_is_missing():
    """Stream 2 is ordered after stream 1, so waiting for stream 2 covers both."""
    program = Program(3)
    x, y = program.allocate(1), program.allocate(1)
    program.session.sync_device(0, 1)
    program.write(1, x, 10)
    program.session.wait_stream(2, 1, 11)
    program.write(2, y, 12)
    program.session.launch(3, "aten::add", [(x, program.view, False), (y, program.view, False)], 20)
    assert related(program, "SYN101") == (20, [12], 1)


def test_an_unordered_read_is_reported_rather_than_the_first_use_of_new_memory():
    """The read is wrong in any case; the memory may never have been in use before."""
    program = Program()
    x = program.allocate(1)
    program.write(1, x, 10)
    new = program.allocate(1)
    program.session.launch(2, "aten::copy_", [(new, program.view, True), (x, program.view, False)], 20)
    assert program.found() == [("SYN101", 20)]


def test_the_wait_for_an_unordered_read_covers_the_first_use_of_new_memory():
    program = Program()
    x, other, early, late = program.allocate(1), program.allocate(1), program.event(), program.event()
    program.write(1, x, 10)
    program.session.record(early, 1, 11)
    program.write(1, other, 12)
    new = program.allocate(1)
    program.session.record(late, 1, 13)
    program.session.launch(2, "aten::copy_", [(new, program.view, True), (x, program.view, False)], 20)
    (pending,) = program.session.collector._pending_findings.values()
    codes = [part for edit in pending.fix.edits for part in edit.code]
    assert EventCode(late) in codes
    assert EventCode(early) not in codes


def test_two_independent_writers_are_two_findings():
    program = Program(3)
    x, y = program.allocate(1), program.allocate(1)
    program.session.sync_device(0, 1)
    program.write(1, x, 10)
    program.write(2, y, 12)
    program.session.launch(3, "aten::add", [(x, program.view, False), (y, program.view, False)], 20)
    assert program.found() == [("SYN101", 20), ("SYN101", 20)]


def test_an_operation_that_reads_and_writes_the_same_bytes_counts_as_a_write():
    program = Program()
    x = program.allocate(1)
    program.write(1, x, 10)
    program.session.launch(2, "aten::add_", [(x, program.view, False), (x, program.view, True)], 20)
    assert program.found() == [("SYN103", 20)]


def test_a_race_after_a_wait_without_effect_is_blamed_on_the_wait():
    program = Program()
    x, done = program.allocate(1), program.event()
    program.write(1, x, 10)
    program.session.wait(done, 2, 11, "event")
    program.read(2, x, 20)
    assert program.found() == [("SYN401", 11)]


def test_work_in_a_context_of_another_device_is_blamed_at_the_work():
    program = Program(streams=2, devices=2)
    x = program.allocate(1)
    for _ in range(3):
        program.write(1, x, 10, context=Context(FAR, 8))
    assert related(program, "SYN501") == (10, [8], 3)


def test_a_race_that_relies_on_a_wrong_context_is_merged_into_that_finding():
    program = Program(streams=3, devices=2)
    x = program.allocate(1)
    program.session.sync_device(0, 1)
    program.write(1, x, 10, context=Context(FAR, 8))
    program.read(3, x, 20)
    program.session.wait_stream(1, 3, 21)
    assert program.found() == [("SYN501", 10)]
    assert related(program, "SYN501") == (10, [8, 20], 1)


def test_a_wrong_context_without_consequences_is_a_warning_and_a_race_makes_it_an_error():
    program = Program(streams=3, devices=2)
    x = program.allocate(1)
    program.session.sync_device(0, 1)
    program.write(1, x, 10, context=Context(FAR, 8))
    assert [finding.level for finding in program.report().findings] == ["warning"]
    program.read(3, x, 20)
    assert [finding.level for finding in program.report().findings] == ["error"]


def test_a_race_is_reported_by_itself_if_the_rule_of_its_wrong_context_is_not_selected():
    program = Program(streams=3, devices=2, selected=lambda rule: rule.code != "SYN501")
    x = program.allocate(1)
    program.session.sync_device(0, 1)
    program.write(1, x, 10, context=Context(FAR, 8))
    program.read(3, x, 20)
    program.session.wait_stream(1, 3, 21)
    assert program.found() == [("SYN101", 20)]


def test_another_line_in_the_same_wrong_context_is_the_same_finding():
    program = Program(streams=2, devices=2)
    x = program.allocate(1)
    program.write(1, x, 10, context=Context(FAR, 8))
    program.write(1, x, 11, context=Context(FAR, 8))
    assert related(program, "SYN501") == (10, [8], 1)


def test_a_thread_that_lost_its_stream_is_blamed_for_the_race():
    program = Program(3)
    x = program.allocate(2)
    program.write(2, x, 5)
    program.session.lost_context(1, 2, 10)
    program.read(1, x, 10, context=Context(2, 0))
    assert program.found() == [("SYN503", 10)]


@pytest.mark.parametrize(("lost", "call"), [((1, 2), "cuda.set_device(1)"), ((1, 4), "cuda.set_stream(")])
def test_a_thread_sets_what_it_has_lost(lost, call):
    program = Program(4, devices=2)
    x = program.allocate(2)
    program.write(lost[1], x, 5)
    program.session.lost_context(*lost, 10)
    (finding,) = (f for f in program.report().findings if f.rule.code == "SYN503")
    assert call in finding.help


@pytest.mark.parametrize("lost", [(2, 1), (1, 3)])
def test_a_stream_lost_by_another_thread_is_not_blamed(lost):
    program = Program(3)
    x = program.allocate(2)
    program.write(2, x, 5)
    program.session.lost_context(*lost, 9)
    program.read(1, x, 10, context=Context(2, 0))
    assert ("SYN101", 10) in program.found()


def test_branches_within_a_graph_race_at_the_capture():
    program = Program(3)
    x = program.allocate(1)
    program.session.capture_begin(1, 2, 5)
    program.session.wait_stream(3, 2, 6)
    program.write(2, x, 7)
    program.write(3, x, 8)
    program.session.wait_stream(2, 3, 9)
    program.session.capture_end(1)
    assert program.found() == [("SYN103", 8)]


def test_a_reported_missing_edge_is_assumed_from_then_on():
    program = Program()
    x = program.allocate(1)
    program.write(1, x, 10)
    program.read(2, x, 20)
    program.read(2, x, 21)
    assert program.found() == [("SYN101", 20)]
    program.write(1, x, 30)
    assert program.found() == [("SYN101", 20), ("SYN102", 30)]


@pytest.mark.parametrize("by_host", [True, False])
def test_the_record_that_the_later_side_waited_for_is_shown_if_it_comes_before_the_work(by_host):
    program = Program()
    x, done = program.allocate(1), program.event()
    program.session.sync_device(0, 1)
    program.session.record(done, 1, 9)
    program.write(1, x, 10)
    if by_host:
        program.session.sync_event(done, 12)
        program.host(x, 20)
    else:
        program.session.wait(done, 2, 12, "wait_event")
        program.read(2, x, 20)
    assert related(program, "SYN301" if by_host else "SYN101") == (20, [10, 9], 1)
    (finding,) = (found for found in program.report().findings if found.rule.code in {"SYN301", "SYN101"})
    assert "after `mul_` instead of before it" in finding.help


@pytest.mark.parametrize("n_buffers", [1, 2])
def test_a_copy_that_the_next_iteration_overwrites_needs_another_buffer(n_buffers):
    program = Program()
    buffers, done = [program.allocate(HOST) for _ in range(n_buffers)], program.event()
    program.write(1, buffers[-1], 10)
    program.session.record(done, 1, 12)
    program.write(1, buffers[0], 10)  # the next iteration
    program.session.record(program.event(), 1, 12)
    program.session.sync_event(done, 14)
    program.host(buffers[0], 20)
    (finding,) = (found for found in program.report().findings if found.rule.code == "SYN301")
    if n_buffers > 1:  # the wait is for the event of another buffer
        assert "after `mul_` instead of before it" in finding.help
        return
    assert "overwrites what the host has not read yet" in finding.help
    assert "one buffer for each copy in flight" in finding.help
    assert finding.fix is None
    assert any("for the copy of an earlier iteration" in related.message for related in finding.related)


def test_a_record_of_another_stream_is_not_too_early():
    program = Program(3)
    x, done = program.allocate(1), program.event()
    program.session.sync_device(0, 1)
    program.session.record(done, 3, 9)
    program.write(1, x, 10)
    program.session.wait(done, 2, 12, "wait_event")
    program.read(2, x, 20)
    assert related(program, "SYN101") == (20, [10], 1)


def test_the_first_wait_for_another_slot_of_a_ring_is_not_the_cause():
    """The work of the first slot has its own record, which the host does not wait for."""
    program = Program()
    program.session.sync_device(0, 1)
    slots = [(program.allocate(0), program.event()) for _ in range(2)]
    for x, done in slots:
        program.session.sync_event(done, 8)
        program.write(2, x, 10)
        program.session.record(done, 2, 11)
    program.host(slots[0][0], 20)
    (finding,) = program.report().findings
    assert (finding.rule.code, [location.frame.line for location in finding.related]) == ("SYN301", [10])


@pytest.mark.parametrize(("ordered", "codes"), [(True, set()), (False, {"SYN503"})])
def test_a_thread_that_waits_for_its_starters_stream_is_meant_to_use_another(ordered, codes):
    program = Program()
    program.session.sync_device(0, 1)
    x = program.allocate(2)
    program.write(2, x, 5)
    if ordered:
        program.session.wait_stream(1, 2, 8)
    program.session.lost_context(1, 2, 10)
    assert {code for code, _ in program.found()} & {"SYN503"} == codes
