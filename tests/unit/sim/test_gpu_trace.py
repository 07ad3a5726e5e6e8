"""Torch's callbacks for GPU calls (`torch.cuda._gpu_trace`)."""

import gc

import pytest
import torch
from torch.cuda import _gpu_trace

from syncheck.sim.gpu_trace import event_handle


@pytest.fixture
def heard(monkeypatch):
    """Return the arguments of all callbacks by kind; the callbacks are removed after the test."""
    kinds = {}
    for kind in (
        "EventCreation EventDeletion EventRecord EventWait MemoryAllocation MemoryDeallocation StreamCreation "
        "DeviceSynchronization StreamSynchronization EventSynchronization"
    ).split():
        registry, kinds[kind] = getattr(_gpu_trace, f"{kind}Callbacks"), []
        monkeypatch.setattr(registry, "callback_list", [lambda *args, kind=kind: kinds[kind].append(args)])
    return kinds


def test_callbacks_start_with_the_activation_of_the_trace(gpu, heard):
    e = torch.cuda.Event()
    e.record()
    e.synchronize()
    assert not any(heard.values())


def test_an_event_is_created_at_its_first_record(gpu, heard):
    torch._C._activate_gpu_trace()
    e = torch.cuda.Event()
    e.wait()
    e.synchronize()
    assert not any(heard.values())
    s = torch.cuda.Stream()
    for _ in range(2):
        e.record(s)
    e.wait()
    e.synchronize()
    handle = e.cuda_event
    assert e._as_parameter_.value == handle == event_handle(e.ident)
    assert (heard["EventCreation"], heard["EventRecord"]) == ([(handle,)], [(handle, s.cuda_stream)] * 2)
    assert (heard["EventWait"], heard["EventSynchronization"]) == ([(handle, 0)], [(handle,)])
    del e
    assert heard["EventDeletion"] == [(handle,)]


def test_deleting_an_event_from_before_the_activation_is_reported(gpu, heard):
    e = torch.cuda.Event()
    e.record()
    handle = e.cuda_event
    torch._C._activate_gpu_trace()
    del e
    assert heard["EventDeletion"] == [(handle,)]
    del heard["EventDeletion"][:]
    torch.cuda.Event()
    gc.collect()
    assert heard["EventDeletion"] == []


def test_wait_stream_uses_a_temporary_event(gpu, heard):
    torch._C._activate_gpu_trace()
    s = torch.cuda.Stream()
    assert heard["StreamCreation"] == [(s.cuda_stream,)]
    s.wait_stream(torch.cuda.current_stream())
    ((handle,),) = heard["EventCreation"]
    assert (heard["EventRecord"], heard["EventWait"]) == ([(handle, 0)], [(handle, s.cuda_stream)])
    assert heard["EventDeletion"] == [(handle,)]


def test_memory_is_identified_by_its_address(gpu, heard):
    torch._C._activate_gpu_trace()
    x = torch.ones(3, device="cuda")
    y = x[1:]
    torch.ones(3)
    address = x.data_ptr()
    assert heard["MemoryAllocation"] == [(address,)]
    del x, y
    assert heard["MemoryDeallocation"] == [(address,)]


def test_resized_memory_is_a_new_allocation(gpu, heard):
    torch._C._activate_gpu_trace()
    x = torch.ones(3, device="cuda")
    before = x.data_ptr()
    x.resize_(5000)
    assert heard["MemoryAllocation"] == [(before,), (x.data_ptr(),)]
    assert heard["MemoryDeallocation"] == [(before,)]


def test_queries_are_not_reported_as_synchronizations(gpu, heard):
    torch._C._activate_gpu_trace()
    s, e = torch.cuda.Stream(), torch.cuda.Event()
    e.record(s)
    while not (e.query() and s.query()):
        pass
    assert not heard["StreamSynchronization"]
    assert not heard["EventSynchronization"]
    s.synchronize()
    torch.ones(3, device="cuda").nonzero()
    torch.cuda.synchronize()
    assert heard["StreamSynchronization"] == [(s.cuda_stream,), (0,)]
    assert heard["DeviceSynchronization"] == [()]


def test_an_error_in_a_callback_does_not_reach_the_program(gpu, heard):
    torch._C._activate_gpu_trace()
    _gpu_trace.register_callback_for_device_synchronization(lambda: 1 / 0)
    torch.cuda.synchronize()
    assert heard["DeviceSynchronization"] == [()]
    assert gpu.codes() == []
