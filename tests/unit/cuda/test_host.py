"""Pinned host memory that streams read and write."""

import gc
from types import SimpleNamespace

import pytest
import torch

from syncheck.cuda.host import HostMemory
from syncheck.instrument.patching import Patches
from syncheck.instrument.tensor_facts import extent


class Monitor:
    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        def call(*args, **kwargs):
            self.calls.append((name, *args, *kwargs.values()))
            return 0

        return call


class Reporter:
    is_checking = True
    sees_thread = True

    def __init__(self):
        self.monitor = Monitor()
        self.call_buffer = SimpleNamespace(add=self.monitor.calls.append)

    def locked_monitor(self):
        return _LockedMonitor(self.monitor)

    def site(self):
        return 7


class _LockedMonitor:
    def __init__(self, monitor):
        self.monitor = monitor

    def __enter__(self):
        return self.monitor

    def __exit__(self, *error):
        pass


@pytest.fixture
def reporter():
    return Reporter()


@pytest.fixture
def host(reporter, monkeypatch):
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda tensor: tensor.dtype == torch.float32)  # stands for pinned
    memory = SimpleNamespace(next_ident=iter(range(1, 99)).__next__, exact_view=lambda tensor: tensor.numel())
    return HostMemory(reporter, memory)


def test_pinned_memory_is_tagged_with_its_first_copy(host, reporter):
    h = torch.ones(4)
    assert host.of(h) is None
    buffer = host.tag(h)
    assert host.of(h[1:]) is host.tag(h) is buffer
    assert reporter.monitor.calls == [("allocate", 1, 0, 16, 0, 0)]
    assert host.tag(torch.ones(4, dtype=torch.int64)) is None


def test_freeing_a_pinned_buffer_is_reported(host, reporter):
    h = torch.ones(4)
    host.tag(h)
    del h
    gc.collect()
    assert host.buffers == {}
    assert reporter.monitor.calls[-1] == ("free", 1, 0)


def test_host_reads_of_tagged_memory_are_reported(host, reporter):
    h = torch.ones(4)
    host.touch("Tensor.tolist()", h)
    assert reporter.monitor.calls == []
    host.tag(h)
    host.touch("Tensor.tolist()", h)
    assert reporter.monitor.calls[-1] == ("host_access", "Tensor.tolist()", [(1, 4, False)], 7, False)
    assert host.access(h[:0], is_write=True) is None


def test_an_untracked_write_to_an_exported_buffer_is_reported(host, reporter):
    h = torch.ones(8)
    buffer = host.tag(h)
    host.mark_exported(h)
    host.note_async_copy(h[:4])
    host.note_async_copy(h[4:])
    h[0] = 5
    host.verify_unmodified(buffer, extent(h[4:]))
    assert not any(call[0] == "host_access" for call in reporter.monitor.calls)
    host.verify_all_unmodified()
    (change,) = [call for call in reporter.monitor.calls if call[0] == "host_access"]
    assert change[1] == "a write through numpy or a pointer"
    assert buffer.in_flight == {}


def test_a_buffer_stays_verified_while_its_copy_may_be_running(host, reporter):
    h = torch.ones(8)
    buffer = host.tag(h)
    host.mark_exported(h)
    host.note_async_copy(h)
    host.verify_all_unmodified(is_last=False)
    assert list(buffer.in_flight) == [extent(h)]
    h[0] = 5
    for _ in range(2):
        host.verify_all_unmodified(is_last=False)
    assert [call[0] for call in reporter.monitor.calls].count("host_access") == 1


def test_only_exported_buffers_are_verified(host):
    h = torch.ones(8)
    buffer = host.tag(h)
    host.note_async_copy(h)
    assert buffer.in_flight == {}


def test_a_buffer_may_be_exported_before_its_first_copy(host):
    h = torch.ones(8)
    host.mark_exported(h)
    assert host.tag(h).exported


def test_methods_that_expose_values_are_hooked(host, reporter):
    h, patches = torch.ones(4), Patches()
    host.tag(h)
    host.install(patches)
    try:
        h.tolist()
        h.numpy()
        repr(h)
        h.data_ptr()
    finally:
        patches.undo()
    h.tolist()
    calls = [(call[1], call[-1]) for call in reporter.monitor.calls if call[0] == "host_access"]
    assert calls[0] == ("Tensor.tolist()", False)
    assert ("Tensor.numpy()", True) in calls
    assert ("printing", False) in calls
    assert host.of(h).exported
