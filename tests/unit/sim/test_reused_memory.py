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
