"""Memory of new tensors in a run under a schedule."""

import torch

from syncheck.sim.reused_memory import ReusedMemory
from syncheck.witness.schedule import Hold, LaunchId


def freed(side, n_elements):
    """Free memory that a stream still reads; return its address and the stream's result."""
    x = torch.ones(n_elements, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x + 1
    return x.untyped_storage().data_ptr(), y


def test_memory_with_pending_work_is_reused_by_the_next_tensor_of_its_size(scheduled):
    simulator = scheduled(Hold(LaunchId(2, 1)))
    assert isinstance(simulator.deferral.reused, ReusedMemory)
    address, y = freed(torch.cuda.Stream(), 1000)
    z = torch.zeros(1000, device="cuda")
    assert z.untyped_storage().data_ptr() == address
    torch.cuda.synchronize()
    assert y.sum().item() == 1000


def test_memory_of_another_size_is_overwritten(scheduled):
    scheduled(Hold(LaunchId(2, 1)))
    address, y = freed(torch.cuda.Stream(), 1000)
    z = torch.zeros(10, device="cuda")
    assert z.untyped_storage().data_ptr() != address
    torch.cuda.synchronize()
    assert y.isnan().all().item()


def test_new_memory_is_filled(scheduled):
    scheduled()
    assert torch.empty(5, device="cuda").isnan().all().item()


def test_memory_that_a_resize_adds_is_filled(scheduled):
    scheduled()
    x = torch.ones(4, device="cuda")
    x.untyped_storage().resize_(0)
    x.untyped_storage().resize_(16)
    assert x.isnan().all().item()
    y = torch.ones(2, device="cuda").resize_(4)
    assert y[:2].tolist() == [1, 1]
    assert y[2:].isnan().all().item()
    low = torch.ones(4, dtype=torch.bfloat16, device="cuda")
    low.untyped_storage().resize_(0)
    low.untyped_storage().resize_(8)
    assert low.isnan().all().item()


def test_a_storage_made_without_values_is_filled(scheduled):
    scheduled()
    storage = torch.UntypedStorage(8, device="cuda")
    assert torch.empty(0, device="cuda").set_(storage).isnan().all().item()
    assert torch.empty(0).set_(torch.UntypedStorage(8)).isnan().all().item()


def test_a_resized_storage_overwrites_freed_memory_that_it_may_get(scheduled):
    scheduled(Hold(LaunchId(2, 1)))
    x = torch.zeros(1000, device="cuda")
    x.untyped_storage().resize_(0)
    _, y = freed(torch.cuda.Stream(), 1000)
    x.untyped_storage().resize_(4000)
    torch.cuda.synchronize()
    assert y.isnan().all().item()
