"""GPU memory that processes share. Here, one process also opens what it has sent."""

import multiprocessing.reduction as reduction
import pickle

import pytest
import torch

from syncheck.sim.shared_storages import SharedStorages


def sent(thing):
    """Return what another process would get."""
    torch.multiprocessing.reductions.shared_cache.clear()
    data = reduction.ForkingPickler.dumps(thing)
    torch.multiprocessing.reductions.shared_cache.clear()
    return pickle.loads(data)


def test_a_sent_tensor_has_the_same_memory_and_device(gpus):
    x = torch.arange(4, device="cuda:1")
    received = sent(x[1:])
    assert (received.device, received.tolist()) == (torch.device("cuda", 1), [1, 2, 3])
    x.add_(10)
    assert received.tolist() == [11, 12, 13]


def test_a_sent_tensor_keeps_its_values_after_the_sender_frees_it(gpu):
    x = torch.arange(4, device="cuda")
    received = sent(x)
    del x
    assert received.tolist() == [0, 1, 2, 3]


def test_a_sent_parameter_is_a_parameter(gpu):
    received = sent(torch.nn.Parameter(torch.ones(2, device="cuda")))
    assert isinstance(received, torch.nn.Parameter)
    assert received.is_cuda
    assert received.requires_grad


def test_an_empty_tensor_can_be_sent(gpu):
    assert (sent(torch.empty(0, 3, device="cuda")).shape, sent(torch.empty(0, device="cuda")).is_cuda) == ((0, 3), True)


def test_received_memory_is_an_allocation(gpu):
    x = torch.ones(4, device="cuda")
    calls = gpu.calls_of(lambda: sent(x))
    assert "allocate 2 on cuda:0" in calls
    assert "free 2" in calls


def test_host_memory_is_not_shared_as_gpu_memory(gpu):
    with pytest.raises(RuntimeError, match="only available on CUDA"):
        SharedStorages(gpu.runtime).share(torch.ones(2).untyped_storage())


def test_pending_work_runs_before_memory_is_shared(scheduled):
    scheduled()
    x = torch.ones(2, device="cuda")
    with torch.cuda.stream(torch.cuda.Stream()):
        x.add_(1)
    assert sent(x).tolist() == [2, 2]
