"""Buffered monitor calls."""

import pytest

from syncheck.cuda import call_buffer
from syncheck.cuda.call_buffer import CallBuffer


class Monitor:
    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return lambda *args: self.calls.append((name, *args))


@pytest.fixture
def monitor():
    return Monitor()


@pytest.fixture
def failures():
    return []


@pytest.fixture
def buffer(monitor, failures):
    return CallBuffer(monitor, lambda what, error: failures.append((what, type(error))))


def test_flush_makes_calls_in_order_and_only_once(buffer, monitor):
    buffer.condenses = False
    buffer.add(("allocate", 1, 1, 16, 0, 5))
    buffer.launch(1, "aten::add", [(1, 0, True)], 6)
    assert monitor.calls == []
    buffer.flush()
    assert [call[0] for call in monitor.calls] == ["allocate", "launch"]
    buffer.flush()
    assert len(monitor.calls) == 2


def test_a_full_buffer_requests_a_flush(buffer, monkeypatch):
    monkeypatch.setattr(call_buffer, "_CALLS_PER_FLUSH", 2)
    assert not buffer.launch(1, "aten::add", [], 0)
    assert buffer.launch(1, "aten::add", [], 0)


def test_only_the_last_of_equal_accesses_is_kept(buffer, monitor):
    for site in (1, 2, 3):
        buffer.launch(1, "aten::add_", [(1, 0, True)], site)
    buffer.flush()
    assert monitor.calls == [("launches_elided", 1, 2, 2), ("launch", 1, "aten::add_", [(1, 0, True)], 3)]


def test_memory_allocated_and_freed_within_the_buffer_is_omitted(buffer, monitor):
    buffer.add(("allocate", 1, 1, 16, 0, 5))
    buffer.launch(1, "aten::mul", [(1, 0, True), (2, 0, False)], 6)
    buffer.add(("free", 1, 7))
    buffer.flush()
    assert monitor.calls == [("launch", 1, "aten::mul", [(2, 0, False)], 6)]


def test_frees_of_memory_from_before_the_buffer_are_kept(buffer, monitor):
    buffer.launch(1, "aten::mul", [(1, 0, False)], 6)
    buffer.add(("free", 1, 7))
    buffer.flush()
    assert monitor.calls[-1] == ("free", 1, 7)


def test_an_operator_whose_accesses_are_elided_is_reported_once(buffer, monitor):
    for name in ("aten::mul", "aten::mul", "aten::add"):
        buffer.launch(1, name, [(1, 0, False)], 6)
    buffer.flush()
    assert [call[2] for call in monitor.calls if call[0] == "launch"] == ["aten::mul", "aten::add"]


def test_without_launches_every_call_is_kept(buffer, monitor):
    calls = [("allocate", 1, 1, 16, 0, 5), ("free", 1, 7)]
    for call in calls:
        buffer.add(call)
    buffer.flush()
    assert monitor.calls == calls


@pytest.mark.parametrize(
    ("call", "what"), [(("launch", 1, "aten::add", [], 0), "aten::add"), (("free", 1, 7), "memory")]
)
def test_a_failing_call_is_reported_and_later_calls_still_run(buffer, monitor, failures, call, what):
    def fail(*_):
        raise ZeroDivisionError

    buffer.condenses = False
    setattr(monitor, call[0], fail)
    buffer.add(call)
    buffer.add(("allocate", 2, 1, 16, 0, 5))
    buffer.flush()
    assert failures == [(what, ZeroDivisionError)]
    assert monitor.calls == [("allocate", 2, 1, 16, 0, 5)]
