"""`torch.cuda.Event` and `torch.Event` on virtual devices."""

import pytest
import torch

from syncheck.sim.errors import NotSimulatedError


def test_an_event_belongs_to_the_device_of_its_first_record(gpus):
    e = torch.cuda.Event()
    assert (e.device, e.cuda_event) == (None, 0)
    e.record(torch.cuda.Stream(device=1))
    assert e.device == torch.device("cuda", 1)
    assert e.cuda_event != 0
    with pytest.raises(RuntimeError, match="does not match recording stream's device"):
        e.record(torch.cuda.Stream(device=0))


def test_records_waits_and_synchronizations_are_reported(gpu):
    s, e = torch.cuda.Stream(), torch.cuda.Event()
    with gpu.calling() as calls:
        e.record()
        e.wait(s)
        e.wait()
        e.synchronize()
    assert calls == ["record e1 on cuda:0", "wait s1 for e1 (event)", "wait cuda:0 for e1 (event)", "sync e1"]


def test_elapsed_times_come_from_the_host_clock(gpu):
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with pytest.raises(ValueError, match="must be recorded"):
        start.elapsed_time(end)
    start.record()
    end.record()
    assert start.elapsed_time(end) >= 0
    with pytest.raises(ValueError, match="enable_timing=True"):
        torch.cuda.Event().elapsed_time(end)


def test_events_of_different_devices_have_no_elapsed_time(gpus):
    events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    for index, event in enumerate(events):
        event.record(torch.cuda.default_stream(index))
        event.synchronize()
    with pytest.raises(RuntimeError, match="CUDA error: invalid resource handle"):
        events[0].elapsed_time(events[1])


def test_arguments_may_be_positional_or_keyword(gpu):
    assert torch.cuda.Event(True)._timing
    assert torch.cuda.Event(enable_timing=True)._timing
    assert not torch.cuda.Event()._timing
    assert "uninitialized" in repr(torch.cuda.Event())


def test_interprocess_events_are_not_simulated(gpu):
    for use in (
        lambda: torch.cuda.Event(interprocess=True),
        torch.cuda.Event().ipc_handle,
        lambda: torch.cuda.Event.from_ipc_handle(0, b""),
    ):
        with pytest.raises(NotSimulatedError):
            use()


def test_a_subclass_may_have_a_constructor_of_its_own(gpu):
    class Named(torch.cuda.Event):
        def __new__(cls, name):
            event = super().__new__(cls, enable_timing=True)
            event.name = name
            return event

    first, second = Named("first"), Named("second")
    first.record()
    second.record()
    second.synchronize()
    assert first.name == "first"
    assert first.elapsed_time(second) >= 0
