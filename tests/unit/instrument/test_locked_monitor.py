"""A monitor that many threads may call: one call at a time."""

import threading

import pytest

from syncheck.instrument.locked_monitor import LockedMonitor


class Direct:
    """Notes calls, and whether the lock was held."""

    def __init__(self, lock):
        self.lock = lock
        self.calls = []

    def launch(self, *args, **kwargs):
        self.calls.append(("launch", args, kwargs, self.lock.held))
        return 7

    def drop(self, *args):
        self.calls.append(("drop", args, self.lock.held))

    def fail(self):
        raise ZeroDivisionError


class Lock:
    """A lock that can be asked whether it is held."""

    def __init__(self):
        self.lock = threading.RLock()
        self.held = 0

    def __enter__(self):
        self.lock.acquire()
        self.held += 1

    def __exit__(self, *error):
        self.held -= 1
        self.lock.release()


@pytest.fixture
def monitor():
    lock = Lock()
    return LockedMonitor(Direct(lock), lock)


def test_a_call_is_passed_on_with_the_lock_held(monitor):
    assert monitor.launch(1, site=2) == 7
    assert monitor.launch(3) == 7
    assert monitor.direct.calls == [("launch", (1,), {"site": 2}, 1), ("launch", (3,), {}, 1)]
    assert monitor.lock.held == 0


def test_a_call_is_looked_up_once(monitor):
    assert monitor.launch is monitor.launch


def test_who_holds_the_lock_may_make_several_calls(monitor):
    with monitor.lock:
        monitor.launch()
        monitor.drop()
    assert [call[-1] for call in monitor.direct.calls] == [2, 2]


def test_an_error_gives_the_lock_back(monitor):
    with pytest.raises(ZeroDivisionError):
        monitor.fail()
    assert monitor.lock.held == 0


def test_a_call_that_the_monitor_lacks_is_an_error(monitor):
    with pytest.raises(AttributeError, match="no_such_call"):
        monitor.no_such_call()


def test_calls_that_are_put_off_come_before_the_next_one_in_order(monitor):
    monitor.later("drop", 1, 2)
    monitor.later("drop", 3)
    assert monitor.direct.calls == []
    monitor.launch()
    monitor.launch()
    assert [call[:2] for call in monitor.direct.calls] == [
        ("drop", (1, 2)), ("drop", (3,)), ("launch", ()), ("launch", ()),
    ]  # fmt: skip
    assert [call[-1] for call in monitor.direct.calls] == [1, 1, 1, 1]


def test_a_call_that_is_put_off_by_another_one_comes_before_the_next(monitor):
    monitor.before_call = lambda: monitor.later("drop")
    monitor.launch()
    assert [call[0] for call in monitor.direct.calls] == ["launch"]
    monitor.launch()
    assert [call[0] for call in monitor.direct.calls] == ["launch", "drop", "launch"]


def test_before_each_call_who_asks_is_called_with_the_lock_held(monitor):
    monitor.launch()
    seen = []
    monitor.before_call = lambda: seen.append((len(monitor.direct.calls), monitor.lock.held))
    monitor.launch()
    monitor.drop()
    assert seen == [(1, 1), (2, 1)]
