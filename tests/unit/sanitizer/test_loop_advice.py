"""Advice that depends on loop iterations: when a loop is hot, and what is not a loop."""

import pytest

import syncheck
from syncheck.errors import ConfigError
from syncheck.filters import ignore_block
from syncheck.hb.ids import BY_TORCH, ObjectKind
from syncheck.rules import catalogue
from syncheck.sanitizer.iteration_counter import HOT
from tests.unit.sanitizer.program import Program


@pytest.fixture
def program():
    return Program(streams=3)


def step(program, x, launches=6):
    """Run one iteration of a training loop, in which each line runs once."""
    for line in range(10, 10 + launches):
        program.write(1, x, line)


def item(program, x, line):
    program.session.launch(1, "aten::_local_scalar_dense", [(x, program.view, False)], line)
    program.session.sync_stream(1, line, explicit=False)


def codes(program):
    return [code for code, _ in program.found()]


def test_reading_a_value_on_each_iteration_is_advised_against(program):
    x = program.allocate(1)
    for _ in range(HOT + 2):
        step(program, x)
        item(program, x, 50)
    assert program.found() == [("SYN801", 50)]


def test_a_warm_up_is_not_a_hot_loop(program):
    x = program.allocate(1)
    for _ in range(HOT - 5):
        step(program, x)
        item(program, x, 50)
    assert program.found() == []


def test_a_value_logged_occasionally_is_not_reported(program):
    x = program.allocate(1)
    for number in range(10 * HOT):
        step(program, x)
        if number % 4 == 0:
            item(program, x, 50)
    assert program.found() == []


def test_a_copy_from_the_host_is_not_taken_for_a_read(program):
    x = program.allocate(1)
    for _ in range(2 * HOT):
        step(program, x)
        program.session.launch(1, "aten::copy_", [(x, program.view, True)], 50)
        program.session.sync_stream(1, 50, explicit=False)
    assert program.found() == []


def test_a_device_wide_wait_before_more_work_is_unnecessary(program):
    x = program.allocate(1)
    for _ in range(2 * HOT):
        step(program, x)
        program.session.sync_device(0, 50)
    assert program.found() == [("SYN806", 50)]


@pytest.mark.parametrize("asks", ["clock", "host", "query"])
def test_a_device_wide_wait_that_the_host_needs_is_not_reported(program, asks):
    x = program.allocate(1)
    for number in range(2 * HOT):
        step(program, x)
        program.session.sync_device(0, 50)
        if asks == "clock":
            program.session.clock(number + 1, 51)
        elif asks == "host":
            program.host(x, 51)
        else:
            program.session.is_pending("stream", 1)
    assert "SYN806" not in codes(program)


def run_alternately(program, *, is_late):
    x, y = program.allocate(1), program.allocate(1)
    for _ in range(HOT + 2):
        program.write(1, x, 10)
        program.session.wait_stream(2, 1, 11)
        program.read(2, x, 12)
        if is_late:
            program.write(1, y, 13)
        program.session.wait_stream(1, 2, 14)
    return [f for f in program.found() if f[0] == "SYN803"]


def test_a_stream_that_always_waits_immediately_overlaps_with_nothing():
    program = Program(streams=2)
    program.session.collector.names.streams[2] = program.session.collector.names.streams[2]._replace(site=3)
    assert run_alternately(program, is_late=False) == [("SYN803", 12)]


def test_work_between_the_waits_overlaps():
    program = Program(streams=2)
    program.session.collector.names.streams[2] = program.session.collector.names.streams[2]._replace(site=3)
    assert run_alternately(program, is_late=True) == []


def related(program):
    (finding,) = [f for f in program.report().findings if f.rule.code == "SYN803"]
    return [(location.frame.line, location.message) for location in finding.related]


def test_waits_that_prevent_the_overlap_are_listed():
    program = Program(streams=2)
    program.session.collector.names.streams[2] = program.session.collector.names.streams[2]._replace(site=3)
    run_alternately(program, is_late=False)
    assert sorted(related(program)) == [
        (11, "the stream made at program.py:3 (cuda:0) waits here for the default stream of cuda:0"),
        (14, "the default stream of cuda:0 waits here for the stream made at program.py:3 (cuda:0)"),
    ]


def test_host_waits_that_prevent_the_overlap_are_listed():
    program = Program(streams=2)
    program.session.collector.names.streams[2] = program.session.collector.names.streams[2]._replace(site=3)
    x, y = program.allocate(1), program.allocate(2)
    for _ in range(HOT + 2):
        program.write(1, x, 10)
        program.session.sync_device(0, 11)
        program.write(2, y, 12)
        program.session.sync_device(0, 13)
    assert sorted(related(program)) == [(11, "the host waits here"), (13, "the host waits here")]


def peer_copies(program, times, *, is_computing):
    x, y = program.allocate(1), program.allocate(2)
    if is_computing:
        program.write(1, x, 9)
    for _ in range(times):
        program.session.wait_stream(1, 2, 20, BY_TORCH)
        program.session.launch(1, "aten::copy_", [(x, program.view, False), (y, program.view, True)], 20)
        program.session.wait_stream(2, 1, 20, BY_TORCH)
    return program.found()


def test_a_peer_copy_queued_behind_compute_is_advised_against():
    assert peer_copies(Program(streams=2, devices=2), HOT, is_computing=True) == [("SYN804", 20)]


def test_a_peer_copy_with_nothing_to_overlap_is_not_reported():
    assert peer_copies(Program(streams=2, devices=2), HOT, is_computing=False) == []


def test_two_live_objects_of_one_stream_are_reported(program):
    session = program.session
    for ident in (1, 2):
        session.object_created(ObjectKind.STREAM, ident, ident)
        session.stream_object(ident, 2, ident)
    assert program.found() == [("SYN808", 2)]


def test_a_stream_may_be_reused_once_its_object_is_gone(program):
    session = program.session
    session.object_created(ObjectKind.STREAM, 1, 1)
    session.stream_object(1, 2, 1)
    session.object_destroyed(ObjectKind.STREAM, 1)
    session.object_created(ObjectKind.STREAM, 2, 2)
    session.stream_object(2, 2, 2)
    assert program.found() == []


# -- emptying the cache


def empty_cache_repeatedly(program, times, every=1):
    x = program.allocate(1)
    for number in range(times):
        step(program, x)
        if number % every == 0:
            program.session.empty_cache(50)
    return program.found()


def test_emptying_the_cache_on_each_iteration_is_advised_against(program):
    assert empty_cache_repeatedly(program, HOT + 2) == [("SYN807", 50)]


@pytest.mark.parametrize(("times", "every"), [(HOT - 5, 1), (10 * HOT, 8)])
def test_emptying_the_cache_in_a_warm_up_or_occasionally_is_not_reported(program, times, every):
    assert empty_cache_repeatedly(program, times, every) == []


# -- intended waits


def test_an_allow_sync_block_permits_host_waits():
    with syncheck.allow_sync("metrics"):
        blocks = ignore_block.current()
    assert ignore_block.covers(blocks, catalogue.find("SYN801"))
    assert ignore_block.covers(blocks, catalogue.find("SYN806"))
    assert ignore_block.covers(blocks, catalogue.find("SYN807"))
    assert not ignore_block.covers(blocks, catalogue.find("SYN101"))
    assert ignore_block.current() == ()


def test_an_unused_allow_sync_block_is_not_recorded():
    ignore_block.begin()
    with syncheck.allow_sync("metrics"):
        pass
    assert ignore_block.entered == set()


def test_an_allow_sync_block_requires_a_reason():
    with pytest.raises(ConfigError, match="needs a reason"), syncheck.allow_sync(" "):
        pass
