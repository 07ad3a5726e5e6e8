"""Host clocks: differences that span work still running."""

import pytest

from syncheck.hb.ids import NamedKind, StreamOrigin
from syncheck.sanitizer import timing
from syncheck.sanitizer.collector import Collector
from syncheck.sanitizer.sync_history import HostSync, SyncHistory, Wait
from syncheck.sanitizer.timing import Timing
from tests.unit.sanitizer.program import Text, found, new_collector, new_engine

BY_NAME = (StreamOrigin.BY_NAME, StreamOrigin.BY_NAME)


class Clocked:
    def __init__(self, devices=1):
        self.collector = new_collector()
        self.engine = new_engine(3, self.collector, devices)
        self.history = SyncHistory(lambda host, moment: True)
        self.timing = Timing(self.engine, self.history, self.collector)
        self.launched_at = {}

    def work(self, stream, site):
        self.engine.launch(stream, (), 1)
        self.launched_at[stream] = site

    def read(self, reading, site):
        self.timing.read(reading, site, self.launched_at)

    def found(self):
        return [(code, line) for code, line, _ in found(self.collector)]


@pytest.fixture
def clocked():
    return Clocked()


def test_work_still_running_at_the_second_reading_is_reported(clocked):
    clocked.read(1, 10)
    clocked.work(2, 11)
    clocked.read(2, 12)
    assert clocked.found() == []
    clocked.timing.difference(1, 2)
    assert clocked.found() == [("SYN701", 12)]
    (finding,) = clocked.collector.findings(Text("\n" * 20))
    assert [location.frame.line for location in finding.related] == [11, 10]
    assert len(finding.fix.edits) == 1


def test_work_running_at_both_readings_needs_two_synchronizations(clocked):
    clocked.work(1, 9)
    clocked.read(1, 10)
    clocked.work(2, 11)
    clocked.read(2, 12)
    clocked.timing.difference(1, 2)
    assert len(clocked.collector.findings(Text("\n" * 20))[0].fix.edits) == 2


def test_work_from_before_the_first_reading_is_not_measured(clocked):
    clocked.work(2, 9)
    clocked.read(1, 10)
    clocked.read(2, 12)
    clocked.timing.difference(1, 2)
    assert clocked.found() == []


def test_after_a_synchronization_the_time_is_right(clocked):
    clocked.read(1, 10)
    clocked.work(2, 11)
    clocked.engine.sync_device(0)
    clocked.read(2, 12)
    clocked.timing.difference(1, 2)
    assert clocked.found() == []


@pytest.mark.parametrize(("second_line", "expected"), [(11, []), (13, [("SYN701", 12)])])
def test_a_loop_with_the_same_work_in_flight_measures_the_right_time(clocked, second_line, expected):
    clocked.work(2, 11)
    clocked.read(1, 12)
    clocked.engine.sync_stream(2)
    clocked.work(2, second_line)
    clocked.read(2, 12)
    clocked.timing.difference(1, 2)
    assert clocked.found() == expected


@pytest.mark.parametrize("epochs", [1, 2])
@pytest.mark.parametrize(("iterations", "expected"), [(1, [("SYN701", 12)]), (3, [])])
def test_a_loop_that_misses_work_in_its_first_iteration_only_is_steady(clocked, epochs, iterations, expected):
    reading = 0
    for _ in range(epochs):
        clocked.engine.sync_device(0)
        clocked.read(reading := reading + 1, 10)
        for _ in range(iterations):
            clocked.engine.sync_stream(2)
            clocked.work(2, 11)
            clocked.read(reading := reading + 1, 12)
            clocked.timing.difference(reading - 1, reading)
    assert clocked.found() == expected


def test_a_later_iteration_that_misses_other_work_is_reported(clocked):
    clocked.work(2, 11)
    clocked.read(1, 12)
    for reading in range(2, 8):
        clocked.engine.sync_stream(2)
        clocked.work(3 if reading == 4 else 2, 11)
        clocked.work(2, 11)
        clocked.read(reading, 12)
        clocked.timing.difference(reading - 1, reading)
        clocked.engine.sync_stream(3)
    assert clocked.found() == [("SYN701", 12)]


def test_a_wrong_time_is_certain_at_once(clocked):
    added = []
    collector = Collector(lambda _: True, added.append)
    collector.names = clocked.collector.names
    clocked.timing = Timing(clocked.engine, clocked.history, collector)
    clocked.read(1, 10)
    clocked.work(2, 11)
    clocked.read(2, 12)
    clocked.timing.difference(1, 2)
    assert [pending.is_certain for pending in added] == [True]  # so that `--fail-fast` ends the run here


def test_a_loop_that_never_waits_is_not_steady(clocked):
    for reading in (1, 2):
        clocked.work(2, 11)
        clocked.read(reading, 12)
    clocked.timing.difference(1, 2)
    assert clocked.found() == [("SYN701", 12)]


@pytest.mark.parametrize(("is_main_process", "expected"), [(True, [("SYN701", 4)]), (False, [])])
def test_a_time_that_only_the_first_rank_uses_is_reported_there(clocked, is_main_process, expected):
    program = Text("import time\nbegin = time.time()\ny = x @ x\nt = time.time() - begin\nif rank == 0:\n    print(t)")
    program.spans = {4: (5, 15)}
    clocked.collector.names.is_main_process = is_main_process
    clocked.read(1, 2)
    clocked.work(2, 3)
    clocked.read(2, 4)
    clocked.timing.difference(1, 2)
    assert [(f.rule.code, f.location.frame.line) for f in clocked.collector.findings(program)] == expected


def test_an_event_wait_mistaken_for_a_host_wait_is_blamed(clocked):
    clocked.read(1, 10)
    clocked.work(2, 11)
    wait = Wait(15, 1, 0, 7, clocked.engine.submitted(), clocked.engine.clock(2), by_event=True, origins=BY_NAME)
    clocked.history.add_wait(wait)
    clocked.collector.names.given[NamedKind.EVENT, 7] = "done"
    clocked.read(2, 12)
    clocked.timing.difference(1, 2)
    assert clocked.found() == [("SYN402", 15)]


@pytest.mark.parametrize(("device", "expected"), [(0, [("SYN502", 15)]), (1, [("SYN701", 12)])])
def test_a_wait_for_the_wrong_device_is_blamed(device, expected):
    clocked = Clocked(devices=2)
    clocked.read(1, 10)
    clocked.work(2, 11)
    clocked.history.add_sync(HostSync(15, device, clocked.engine.submitted(), is_device_wide=True))
    clocked.read(2, 12)
    clocked.timing.difference(1, 2)
    assert clocked.found() == expected


def test_a_stream_created_after_the_first_reading_is_included(clocked):
    clocked.read(1, 10)
    stream = clocked.engine.add_stream(0)
    clocked.collector.names.streams[stream] = clocked.collector.names.streams[2]
    clocked.work(stream, 11)
    clocked.read(2, 12)
    clocked.timing.difference(1, 2)
    assert clocked.found() == [("SYN701", 12)]


def test_forgotten_or_unknown_readings_are_ignored(clocked, monkeypatch):
    monkeypatch.setattr(timing, "_KEPT", 2)
    clocked.read(1, 10)
    clocked.work(2, 11)
    for reading in (2, 3):
        clocked.read(reading, 12)
    clocked.timing.difference(1, 3)
    clocked.timing.difference(99, 3)
    clocked.timing.difference(3, 99)
    assert clocked.found() == []
