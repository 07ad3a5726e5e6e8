"""Events that reach the performance advice for loops, and their order."""

import pytest

from syncheck.sanitizer.advice import RULES, Advice
from syncheck.sanitizer.iteration_counter import HOT
from syncheck.sanitizer.sync_history import SyncHistory
from tests.unit.sanitizer.program import Text, found, new_collector, new_engine

COPY = "aten::copy_"


class Loops:
    def __init__(self, *, is_run=True, streams=3, devices=1):
        self.collector = new_collector()
        self.engine = new_engine(streams, self.collector, devices)
        self.advice = Advice(self.engine, self.collector, SyncHistory(self.engine.host_follows), is_run=is_run)

    def launch(self, stream=1, operator="aten::mul", accesses=(), site=10):
        self.advice.launching(stream, operator, accesses, site)
        self.engine.launch(stream, (), 1)

    def found(self):
        return [(code, line) for code, line, _ in found(self.collector)]


def wait_for_stream(loops, *, operator="aten::mul", is_write=False, explicit=False):
    loops.launch(operator=operator, accesses=[(1, 0, is_write)])
    loops.advice.host_waits(1, 50, explicit=explicit)


def wait_for_device(loops):
    loops.launch()
    loops.advice.device_waits(0, 50)


def take_turns(loops):
    loops.launch(1, site=10)
    loops.engine.wait_stream(2, 1)
    loops.launch(2, site=20)
    loops.engine.wait_stream(1, 2)
    loops.advice.overlap.report()


def copy_to_peer(loops):
    loops.launch(1, site=9)
    loops.advice.overlap.torch_waits(1, 2, 20)
    loops.launch(1, COPY, site=20)


def empty_cache(loops):
    loops.launch()
    loops.advice.cache_emptied(50)


def make_objects(loops):
    for ident in (1, 2):
        loops.advice.stream_object(ident, 2, 30)


PROGRAMS = [(wait_for_stream, 1, "SYN801"), (wait_for_device, 1, "SYN806"), (take_turns, 1, "SYN803"),
            (copy_to_peer, 2, "SYN804"), (empty_cache, 1, "SYN807"),
            (make_objects, 1, "SYN808")]  # fmt: skip


@pytest.mark.parametrize(("step", "devices", "code"), PROGRAMS)
def test_a_run_produces_the_advice(step, devices, code):
    loops = Loops(devices=devices)
    for _ in range(HOT + 2):
        step(loops)
    assert code in [found for found, _ in loops.found()]


@pytest.mark.parametrize(("step", "devices", "code"), PROGRAMS)
def test_static_analysis_produces_no_loop_advice(step, devices, code):
    loops = Loops(devices=devices, is_run=False)
    for _ in range(HOT + 2):
        step(loops)
    assert loops.found() == []


def test_each_rule_has_a_program_above():
    assert {rule.code for rule in RULES} == {code for _, _, code in PROGRAMS}


def test_begin_resets_the_loop_counters():
    loops = Loops()
    for _ in range(HOT - 1):
        wait_for_stream(loops)
    loops.advice.begin()
    wait_for_stream(loops)
    assert loops.found() == []


def test_a_wait_for_an_idle_stream_is_ignored():
    loops = Loops()
    for _ in range(HOT + 1):
        loops.launch()
        loops.advice.host_waits(2, 50, explicit=True)
    assert loops.found() == []


@pytest.mark.parametrize(("is_write", "expected"), [(True, []), (False, [("SYN801", 50)])])
def test_the_latest_operator_of_a_stream_determines_what_is_waited_for(is_write, expected):
    loops = Loops()
    for _ in range(HOT):
        loops.launch(2, "aten::add", [(1, 0, True)], 20)
        wait_for_stream(loops, operator=COPY, is_write=is_write)
    assert loops.found() == expected


def test_an_explicit_wait_is_not_part_of_the_latest_operator():
    loops = Loops()
    for _ in range(HOT):
        wait_for_stream(loops, operator=COPY, is_write=True, explicit=True)
    assert loops.found() == [("SYN801", 50)]
    (finding,) = loops.collector.findings(Text())
    assert "`synchronize()`" in finding.message


def test_an_operator_without_accesses_writes_nothing():
    loops = Loops()
    for _ in range(HOT):
        loops.launch(operator=COPY)
        loops.advice.host_waits(1, 50, explicit=False)
    assert loops.found() == [("SYN801", 50)]


def test_a_device_wait_that_the_host_needs_is_not_reported():
    loops = Loops()
    for _ in range(2 * HOT):
        wait_for_device(loops)
        loops.advice.syncs.host_inspects()
    assert loops.found() == []


def test_a_deleted_stream_object_releases_its_stream():
    loops = Loops()
    for ident in range(3):
        loops.advice.stream_object(ident, 2, 30)
        loops.advice.overlap.stream_object_destroyed(ident)
    assert loops.found() == []
