"""Host clocks whose readings remember when they were taken."""

import copy
import os
import pickle
import sysconfig
import time
import timeit
from functools import partial
from types import SimpleNamespace

import pytest

from syncheck.instrument.clocks import Clocks, FloatReading
from syncheck.instrument.patching import Patches


class Monitor:
    def __init__(self):
        self.calls = []

    def clock(self, reading, site):
        self.calls.append(("clock", reading, site))

    def clock_difference(self, earlier, later):
        self.calls.append(("difference", earlier, later))


def notify(monitor, name, *arguments):
    getattr(monitor, name)(*arguments)


@pytest.fixture
def monitor():
    patches, monitor, numbers = Patches(), Monitor(), iter(range(1, 99))
    Clocks(partial(notify, monitor), patches, lambda: next(numbers), lambda: 7).install()
    yield monitor
    patches.undo()


@pytest.mark.parametrize("name", ["time", "perf_counter", "monotonic", "time_ns", "perf_counter_ns", "monotonic_ns"])
def test_a_difference_of_two_readings_is_reported(monitor, name):
    clock = getattr(time, name)
    began = clock()
    spent = clock() - began
    assert monitor.calls == [("clock", 1, 7), ("clock", 2, 7), ("difference", 1, 2)]
    assert type(spent) in {float, int}
    assert spent >= 0
    assert clock.__name__ == name


def test_a_reading_converted_to_another_unit_is_the_same_reading(monitor):
    began = time.time() * 1000
    ended = 1000 * time.time()
    assert ended - began >= 0
    assert time.time() / 2 - began < 0
    assert [call for call in monitor.calls if call[0] == "difference"] == [("difference", 1, 2), ("difference", 1, 3)]


def test_a_reading_minus_a_number_is_a_number(monitor):
    assert type(time.time() - 1.0) is float
    assert ("difference",) not in {call[:1] for call in monitor.calls}


@pytest.mark.parametrize(("clock", "kind"), [("perf_counter", float), ("time_ns", int)])
def test_a_sum_of_intervals_is_a_difference_of_readings(monitor, clock, kind):
    read, total = getattr(time, clock), 0
    for _ in range(2):
        total -= read()
        assert type(pickle.loads(pickle.dumps(total))) is kind
        total += read()
    assert type(total) is kind
    assert total >= 0
    assert [call for call in monitor.calls if call[0] == "difference"] == [("difference", 1, 2), ("difference", 3, 4)]


def test_two_readings_subtracted_from_one_sum_are_no_interval(monitor):
    total = 0.0 - time.time() - time.time()
    assert total < 0
    assert "difference" not in {call[0] for call in monitor.calls}


def test_copied_and_pickled_readings_keep_their_value(monitor):
    for reading in (time.time(), time.time_ns()):
        assert copy.copy(reading) is copy.deepcopy(reading) is reading
        again = pickle.loads(pickle.dumps(reading))
        assert again == reading
        assert type(again) in {float, int}
    assert isinstance(SimpleNamespace(reading=time.time()).reading, FloatReading)


def test_library_callers_get_plain_numbers(monitor):
    namespace = {"time": time}
    library = os.path.join(sysconfig.get_paths()["purelib"], "library.py")
    exec(compile("reading = time.time()", library, "exec"), namespace)
    assert type(namespace["reading"]) is float
    assert monitor.calls == []


def test_timeit_takes_a_reading_before_and_after(monitor):
    timeit.Timer("pass").timeit(1)
    assert monitor.calls == [("clock", 1, 7), ("clock", 2, 7), ("difference", 1, 2)]


def test_readings_of_different_checks_are_not_compared():
    monitors = []
    readings = []
    for _ in range(2):
        patches, monitor, numbers = Patches(), Monitor(), iter(range(1, 99))
        Clocks(partial(notify, monitor), patches, lambda numbers=numbers: next(numbers), lambda: 7).install()
        readings.append((time.time(), time.time_ns()))
        monitors.append(monitor)
        if len(monitors) == 2:
            assert readings[1][0] - readings[0][0] >= 0
            assert readings[1][1] - readings[0][1] >= 0
        patches.undo()
    assert [call for monitor in monitors for call in monitor.calls if call[0] == "difference"] == []
