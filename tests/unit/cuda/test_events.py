"""Identification of events by object and by handle."""

import gc
from types import SimpleNamespace

import pytest
import torch


class Event:
    """Stand-in for a torch event object."""

    def __init__(self, handle=0):
        self.cuda_event = handle


@pytest.fixture
def events(gpu):
    return gpu.cuda.events


def run(original=None):
    """Return `original` or a stand-in for torch's own method."""
    return original or (lambda *args: None)


def test_an_event_created_in_python_is_announced_once(gpu, events):
    done = Event()
    ident = events.announce(done, timing=True)
    assert events.of(done) == ident
    assert [call[1] for call in gpu.monitor.named("event")] == [ident]
    assert [str(call[1]) for call in gpu.monitor.named("object_created")] == ["timing event"]


def test_an_event_created_in_cpp_is_identified_by_its_handle(gpu, events):
    assert not events.is_known(5)
    ident = events.of_handle(5)
    assert events.of_handle(5) == ident
    assert events.is_known(5)
    events.deleted(5)
    assert not events.is_known(5)
    with gpu.cuda.reporter.locked_monitor():
        pass
    assert [call[1] for call in gpu.monitor.named("drop_event")] == [ident]


def test_an_event_with_a_handle_from_before_the_check_is_unknown(events):
    assert events.of(Event(9)) == 0
    assert events.of(Event()) != 0


def test_a_record_associates_the_event_with_its_handle(gpu, events):
    done = Event()
    ident = events.announce(done, timing=False)

    def record(event, stream):
        event.cuda_event = 77

    events._record(record)(done, SimpleNamespace(cuda_stream=7, device_index=0))
    assert events.of_handle(77) == ident
    (call,) = gpu.monitor.named("record")
    assert call[1:3] == (ident, gpu.cuda.streams.of(0, 7))


def test_waits_and_synchronizations_are_reported(gpu, events):
    done = Event()
    ident = events.announce(done, timing=False)
    events._record(run())(done, None)
    events._wait(run())(done, None)
    events._synchronize(run())(done)
    assert [call[0] for call in gpu.monitor.calls][-3:] == ["record", "wait", "sync_event"]
    assert str(gpu.monitor.named("wait")[0][4]) == "event"
    assert gpu.monitor.named("sync_event")[0][1] == ident


def test_exported_buffers_are_verified_before_the_host_waits(gpu, events, monkeypatch):
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda _: True)
    done, buffer, host = Event(), torch.ones(8), gpu.cuda.host
    events.announce(done, timing=False)
    host.tag(buffer)
    host.mark_exported(buffer)
    host.note_async_copy(buffer)
    buffer[0] = 5
    events._synchronize(run())(done)
    assert [call[0] for call in gpu.monitor.calls][-2:] == ["host_access", "sync_event"]


@pytest.mark.parametrize("done", [True, False])
def test_only_a_successful_query_synchronizes_the_host(gpu, events, done):
    event = Event(5)
    ident = events.of_handle(5)
    assert events._query(lambda _: done)(event) is done
    assert [call[1] for call in gpu.monitor.named("sync_event")] == ([ident] if done else [])


def test_suppressed_calls_go_straight_to_torch(gpu, events):
    seen = []
    with gpu.cuda.reporter.suppressed():
        events._wait(lambda *args: seen.append(args))(Event(), None)
        events._synchronize(lambda *args: seen.append(args))(Event())
        events._record(lambda *args: seen.append(args))(Event(), None)
    assert len(seen) == 3
    assert gpu.monitor.named("event") == []


def test_a_deleted_event_is_dropped_once_no_callback_refers_to_it(gpu, events):
    done = Event()
    ident = events.announce(done, timing=True)
    gpu.cuda.pending_callbacks.count += 1
    del done
    gc.collect()
    with gpu.cuda.reporter.locked_monitor():
        pass
    assert gpu.monitor.named("drop_event") == []
    gpu.cuda.pending_callbacks.count -= 1
    with gpu.cuda.reporter.locked_monitor():
        pass
    assert [call[1] for call in gpu.monitor.named("drop_event")] == [ident]
    assert [call[2] for call in gpu.monitor.named("object_destroyed")] == [ident]


def test_elapsed_time_of_generic_events_raises_torchs_errors(events):
    start, end = Event(), Event()
    for event in (start, end):
        events.announce(event, timing=True)
    with pytest.raises(ValueError, match="must be recorded"):
        events._generic_elapsed(start, end)
    plain = Event()
    events.announce(plain, timing=False)
    with pytest.raises(ValueError, match="enable_timing=True"):
        events._generic_elapsed(start, plain)
