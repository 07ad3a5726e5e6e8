"""CUDA driver events, with a fake driver that records the context of each call."""

import time

import pytest

from syncheck.cuda import devices
from syncheck.cuda.driver_events import DriverEvents
from syncheck.errors import BackendError


class Driver:
    """Fake driver: contexts count from 100, one per device; events count from 7.

    Attributes:
        failing: CUDA error that the next calls return, 0 for none.
        contexts: stack of current contexts, the latest last.
        retained: every context that was requested.
        records: (context, event, stream) of each record.
        pending: events that are not complete.
    """

    def __init__(self):
        self.failing = 0
        self.contexts, self.retained, self.records, self.waits = [], [], [], []
        self.pending = set()
        self.made = 6

    def cuDeviceGet(self, ordinal, device):  # noqa: N802  the driver's name
        ordinal._obj.value = device + 10

    def cuDevicePrimaryCtxRetain(self, context, ordinal):  # noqa: N802  as above
        context._obj.value = ordinal.value + 90
        self.retained.append(context._obj.value)

    def cuCtxPushCurrent_v2(self, context):  # noqa: N802  as above
        self.contexts.append(context.value)

    def cuCtxPopCurrent_v2(self, context):  # noqa: N802  as above
        context._obj.value = self.contexts.pop()

    def cuEventCreate(self, event, flags):  # noqa: N802  as above
        self.made += 1
        event._obj.value = self.made
        self.flags, self.made_in = flags, self.contexts[-1]
        return self.failing

    def cuEventRecord(self, event, stream):  # noqa: N802  as above
        self.records.append((self.contexts[-1], event.value, stream.value or 0))
        return self.failing

    def cuEventQuery(self, event):  # noqa: N802  as above
        return 600 if event.value in self.pending else self.failing

    def cuEventSynchronize(self, event):  # noqa: N802  as above
        self.waits.append(event.value)


@pytest.fixture
def driver(monkeypatch):
    made = Driver()
    monkeypatch.setattr(devices, "driver", lambda: made)
    return made


@pytest.fixture
def events(driver):
    return DriverEvents()


def test_a_missing_driver_raises_an_error_with_a_hint(monkeypatch):
    monkeypatch.setattr(devices, "driver", lambda: None)
    with pytest.raises(BackendError, match="the CUDA driver library was not found") as error:
        DriverEvents()
    assert error.value.hint == "omit --times"


def test_events_are_created_with_timing_in_the_context_of_their_device(driver, events):
    assert (events.make(0), driver.made_in) == (7, 100)
    assert (events.make(1), driver.made_in) == (8, 101)
    assert driver.flags == 0
    assert driver.contexts == []


def test_each_device_context_is_retained_once(driver, events):
    for device in (0, 1, 0, 1):
        events.make(device)
    assert driver.retained == [100, 101]


def test_a_rejected_event_creation_returns_zero(driver, events):
    driver.failing = 2
    assert events.make(0) == 0
    assert driver.contexts == []


def test_records_are_made_in_the_context_of_the_device(driver, events):
    assert events.record(7, 1, 55) is True
    assert events.record(7, 0, 0) is True  # the default stream of the context
    assert driver.records == [(101, 7, 55), (100, 7, 0)]
    assert driver.contexts == []


def test_a_failed_record_returns_false(driver, events):
    driver.failing = 400
    assert events.record(7, 0, 0) is False
    assert driver.contexts == []


@pytest.mark.parametrize("name", ["cuEventCreate", "cuEventRecord"])
def test_the_programs_context_is_restored_after_an_error(driver, events, monkeypatch, name):
    def fail(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(driver, name, fail)
    with pytest.raises(ZeroDivisionError):
        events.make(0) if name == "cuEventCreate" else events.record(7, 0, 0)
    assert driver.contexts == []


def test_an_event_is_pending_only_if_the_driver_says_not_ready(driver, events):
    driver.pending = {7}
    assert events.is_complete(7) is False
    assert events.is_complete(8) is True
    driver.failing = 700  # no further completion will be reported
    assert events.is_complete(8) is True


def test_wait_returns_the_time_at_which_it_ended(driver, events):
    before = time.perf_counter_ns()
    assert before <= events.wait(7) <= time.perf_counter_ns()
    assert driver.waits == [7]


@pytest.mark.parametrize(("milliseconds", "nanoseconds"), [(1.5, 1_500_000), (0.0000004, 0), (None, None), (0.0, 0)])
def test_times_are_rounded_to_whole_nanoseconds(events, monkeypatch, milliseconds, nanoseconds):
    monkeypatch.setattr(devices, "milliseconds", lambda start, end: milliseconds if (start, end) == (7, 8) else -1)
    assert events.nanoseconds(7, 8) == nanoseconds
