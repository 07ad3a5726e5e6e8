"""Records, waits and synchronizations that torch itself reports."""

from types import SimpleNamespace

import pytest
import torch.cuda._gpu_trace as gpu_trace

from syncheck.cuda import devices, trace_handlers
from syncheck.cuda.trace_handlers import TraceHandlers
from syncheck.instrument.patching import Patches


@pytest.fixture
def handlers(gpu, monkeypatch):
    monkeypatch.setattr(devices, "current_device", lambda: 0)
    cuda = gpu.cuda
    return TraceHandlers(cuda.reporter, cuda.streams, cuda.events, cuda.host, cuda.pending_callbacks, cuda.captures)


def test_records_and_waits_of_cpp_code_are_reported(gpu, handlers):
    handlers._recorded(5, 7)
    handlers._waited(5, 0)
    event, side = gpu.cuda.events.of_handle(5), gpu.cuda.streams.of(0, 7)
    assert gpu.monitor.named("record")[0][1:3] == (event, side)
    assert gpu.monitor.named("wait")[0][1:3] == (event, 1)
    assert str(gpu.monitor.named("wait")[0][4]) == ""


def test_the_session_works_while_an_operator_waits(gpu, handlers, monkeypatch):
    """Torch calls the handlers before it waits; here the caller is an operator's frame."""
    seen, frame = [], SimpleNamespace(f_code=trace_handlers.DISPATCH)
    monkeypatch.setattr(trace_handlers, "_caller", lambda: frame)
    monkeypatch.setattr(gpu.cuda.streams, "before_wait", lambda: seen.append("wait"))
    handlers._recorded(5, 0)
    assert seen == []
    handlers._stream_synchronized(0)
    handlers._event_synchronized(5)
    handlers._device_synchronized()
    assert seen == ["wait"] * 3
    gpu.cuda.pending_callbacks.by_frame.clear()


def test_a_wait_for_an_unknown_event_is_ignored(gpu, handlers):
    handlers._waited(99, 0)
    handlers._event_synchronized(99)
    assert gpu.monitor.named("wait") == gpu.monitor.named("sync_event") == []


def test_synchronizations_are_reported(gpu, handlers):
    handlers._recorded(5, 0)
    handlers._stream_synchronized(0)
    handlers._event_synchronized(5)
    handlers._device_synchronized()
    assert [call[0] for call in gpu.monitor.calls][-3:] == ["sync_stream", "sync_event", "sync_device"]


def test_exported_buffers_are_verified_before_the_host_waits(gpu, handlers, monkeypatch):
    verified = []
    monkeypatch.setattr(
        gpu.cuda.host, "verify_all_unmodified", lambda *, is_last=True: verified.append((len(waits()), is_last))
    )
    waits = lambda: [call for call in gpu.monitor.calls if call[0].startswith("sync_")]  # noqa: E731
    handlers._recorded(5, 0)
    handlers._stream_synchronized(0)
    handlers._event_synchronized(5)
    handlers._device_synchronized()
    assert verified == [(0, False), (1, False), (2, True)]


def test_a_device_synchronization_during_capture_is_rejected(gpu, handlers):
    gpu.cuda.captures.begin()
    handlers._device_synchronized()
    gpu.cuda.captures.end()
    assert gpu.monitor.named("sync_device") == []
    assert gpu.monitor.named("sync_in_capture")[0][1] == "torch.cuda.synchronize()"


def test_the_handle_of_a_deleted_event_may_be_reused(gpu, handlers):
    handlers._recorded(5, 0)
    first = gpu.cuda.events.of_handle(5)
    handlers._event_deleted(5)
    assert gpu.cuda.events.of_handle(5) != first


def test_suppressed_callbacks_are_ignored(gpu, handlers):
    with gpu.cuda.reporter.suppressed():
        handlers._recorded(5, 0)
        handlers._device_synchronized()
        handlers._stream_synchronized(0)
    assert [call for call in gpu.monitor.calls if call[0] in {"record", "sync_device", "sync_stream"}] == []


def test_handlers_replace_the_registries_and_restore_them(handlers, monkeypatch):
    heard, patches = [], Patches()
    registry = gpu_trace.EventDeletionCallbacks
    monkeypatch.setattr(registry, "callback_list", [heard.append])
    before = registry.fire_callbacks
    handlers.install(patches)
    registry.fire_callbacks(5)
    patches.undo()
    assert heard == [5]  # existing listeners are called first
    assert registry.fire_callbacks == before
