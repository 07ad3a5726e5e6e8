"""Integration of the CUDA backend's components."""

from types import SimpleNamespace

import torch


def test_each_device_has_its_default_stream(gpu):
    assert gpu.cuda.streams.known(SimpleNamespace(device=torch.device("cuda:0"), device_index=0, cuda_stream=0)) == 1
    assert gpu.monitor.named("stream")[0][1:4] == (1, 0, 0)


def test_a_second_stream_enables_the_gpu_trace_permanently(gpu):
    assert not gpu.cuda.gpu_trace._is_enabled
    gpu.current.handle = 7
    torch.ones(1)
    assert gpu.cuda.gpu_trace._is_enabled


def test_launch_namer_identifies_allocations_streams_and_events(gpu):
    x = torch.ones(2)
    namer = gpu.cuda.launches._namer
    identities = namer._identities
    assert identities.allocation_of(x) == gpu.cuda.memory.allocation_of(x)
    assert identities.stream_of("no stream") == 0
    assert identities.event_of(3) == 0


def test_finish_reports_pending_work_and_stops_checking(gpu):
    torch.ones(2)
    gpu.cuda.finish()
    assert not gpu.cuda.is_checking
    before = len(gpu.monitor.named("launch"))
    torch.ones(2)
    assert len(gpu.monitor.named("launch")) == before
    gpu.cuda.finish()
