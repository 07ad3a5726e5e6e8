"""Torch's callbacks for GPU calls (`torch.cuda._gpu_trace`)."""

import gc

import pytest
import torch
from torch.cuda import _gpu_trace

from syncheck.sim.gpu_trace import event_handle


@pytest.fixture
def received(monkeypatch):
    """Return the arguments of all callbacks by kind; the callbacks are removed after the test."""
    kinds = {}
    for kind in (
        "EventCreation EventDeletion EventRecord EventWait MemoryAllocation MemoryDeallocation StreamCreation "
        "DeviceSynchronization StreamSynchronization EventSynchronization"
    ).split():
        registry, kinds[kind] = getattr(_gpu_trace, f"{kind}Callbacks"), []
        monkeypatch.setattr(registry, "callback_list", [lambda *args, kind=kind: kinds[kind].append(args)])
    return kinds


def test_callbacks_start_with_the_activation_of_the_trace(gpu, received):
    e = torch.cuda.Event()
    e.record()
    e.synchronize()
    assert not any(received.values())


def test_an_event_is_created_at_its_first_record(gpu, received):
    torch._C._activate_gpu_trace()
    e = torch.cuda.Event()
    e.wait()
    e.synchronize()
    assert not any(received.values())
    s = torch.cuda.Stream()
    for _ in range(2):
        e.record(s)
    e.wait()
    e.synchronize()
    handle = e.cuda_event
    assert e._as_parameter_.value == handle == event_handle(e.ident)
    assert (received["EventCreation"], received["EventRecord"]) == ([(handle,)], [(handle, s.cuda_stream)] * 2)
    assert (received["EventWait"], received["EventSynchronization"]) == ([(handle, 0)], [(handle,)])
    del e
    assert received["EventDeletion"] == [(handle,)]


def test_deleting_an_event_from_before_the_activation_is_reported(gpu, received):
    e = torch.cuda.Event()
    e.record()
    handle = e.cuda_event
    torch._C._activate_gpu_trace()
    del e
    assert received["EventDeletion"] == [(handle,)]
    del received["EventDeletion"][:]
    torch.cuda.Event()
    gc.collect()
    assert received["EventDeletion"] == []


def test_wait_stream_uses_a_temporary_event(gpu, received):
    torch._C._activate_gpu_trace()
    s = torch.cuda.Stream()
    assert received["StreamCreation"] == [(s.cuda_stream,)]
    s.wait_stream(torch.cuda.current_stream())
    ((handle,),) = received["EventCreation"]
    assert (received["EventRecord"], received["EventWait"]) == ([(handle, 0)], [(handle, s.cuda_stream)])
    assert received["EventDeletion"] == [(handle,)]


def test_memory_is_identified_by_its_address(gpu, received):
    torch._C._activate_gpu_trace()
    x = torch.ones(3, device="cuda")
    y = x[1:]
    torch.ones(3)
    address = x.data_ptr()
    assert received["MemoryAllocation"] == [(address,)]
    del x, y
    assert received["MemoryDeallocation"] == [(address,)]


def test_resized_memory_is_a_new_allocation(gpu, received):
    torch._C._activate_gpu_trace()
    x = torch.ones(3, device="cuda")
    before = x.data_ptr()
    x.resize_(5000)
    assert received["MemoryAllocation"] == [(before,), (x.data_ptr(),)]
    assert received["MemoryDeallocation"] == [(before,)]


def test_queries_are_not_reported_as_synchronizations(gpu, received):
    torch._C._activate_gpu_trace()
    s, e = torch.cuda.Stream(), torch.cuda.Event()
    e.record(s)
    while not (e.query() and s.query()):
        pass
    assert not received["StreamSynchronization"]
    assert not received["EventSynchronization"]
    s.synchronize()
    torch.ones(3, device="cuda").nonzero()
    torch.cuda.synchronize()
    assert received["StreamSynchronization"] == [(s.cuda_stream,), (0,)]
    assert received["DeviceSynchronization"] == [()]


def test_an_error_in_a_callback_does_not_reach_the_program(gpu, received):
    torch._C._activate_gpu_trace()
    _gpu_trace.register_callback_for_device_synchronization(lambda: 1 / 0)
    torch.cuda.synchronize()
    assert received["DeviceSynchronization"] == [()]
    assert gpu.codes() == []
