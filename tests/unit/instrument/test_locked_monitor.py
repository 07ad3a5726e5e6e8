"""A monitor that serializes the calls of many threads."""

import threading

import pytest

from syncheck.instrument.locked_monitor import LockedMonitor


class Direct:
    """Records calls and whether the lock was held."""

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
    """A lock that reports whether it is held."""

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


def test_a_call_is_forwarded_with_the_lock_held(monitor):
    assert monitor.launch(1, site=2) == 7
    assert monitor.launch(3) == 7
    assert monitor.direct.calls == [("launch", (1,), {"site": 2}, 1), ("launch", (3,), {}, 1)]
    assert monitor.lock.held == 0


def test_a_call_is_looked_up_once(monitor):
    assert monitor.launch is monitor.launch


def test_the_lock_holder_may_make_several_calls(monitor):
    with monitor.lock:
        monitor.launch()
        monitor.drop()
    assert [call[-1] for call in monitor.direct.calls] == [2, 2]


def test_an_error_releases_the_lock(monitor):
    with pytest.raises(ZeroDivisionError):
        monitor.fail()
    assert monitor.lock.held == 0


def test_an_unknown_call_is_an_error(monitor):
    with pytest.raises(AttributeError, match="no_such_call"):
        monitor.no_such_call()


def test_deferred_calls_run_in_order_before_the_next_call(monitor):
    monitor.later("drop", 1, 2)
    monitor.later("drop", 3)
    assert monitor.direct.calls == []
    monitor.launch()
    monitor.launch()
    assert [call[:2] for call in monitor.direct.calls] == [
        ("drop", (1, 2)), ("drop", (3,)), ("launch", ()), ("launch", ()),
    ]  # fmt: skip
    assert [call[-1] for call in monitor.direct.calls] == [1, 1, 1, 1]


def test_a_call_deferred_by_another_runs_before_the_next_call(monitor):
    monitor.before_call = lambda: monitor.later("drop")
    monitor.launch()
    assert [call[0] for call in monitor.direct.calls] == ["launch"]
    monitor.launch()
    assert [call[0] for call in monitor.direct.calls] == ["launch", "drop", "launch"]


def test_before_call_runs_before_each_call_with_the_lock_held(monitor):
    monitor.launch()
    seen = []
    monitor.before_call = lambda: seen.append((len(monitor.direct.calls), monitor.lock.held))
    monitor.launch()
    monitor.drop()
    assert seen == [(1, 1), (2, 1)]
