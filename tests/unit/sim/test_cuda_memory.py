"""The memory functions of `torch.cuda`."""

import pytest
import torch

from syncheck.sim.errors import NotSimulatedError
from syncheck.sim.virtual_gpus import TOTAL_MEMORY


def test_memory_is_what_tensors_take(gpus):
    x = torch.empty(1024, device="cuda:1")
    assert torch.cuda.memory_allocated(1) == 4096
    assert torch.cuda.memory_allocated() == 0
    y = torch.empty(1024, device="cuda:1")
    del x
    assert (torch.cuda.memory_allocated(1), torch.cuda.max_memory_allocated(1)) == (4096, 8192)
    torch.cuda.reset_peak_memory_stats(1)
    assert torch.cuda.max_memory_allocated(1) == 4096
    assert torch.cuda.mem_get_info(1) == (TOTAL_MEMORY - 4096, TOTAL_MEMORY)
    del y


def test_statistics_are_nested_or_flat(gpu):
    x = torch.empty(1024, device="cuda")
    assert torch.cuda.memory_stats()["allocated_bytes.all.current"] == x.nbytes
    assert torch.cuda.memory_stats_as_nested_dict()["allocation"]["all"]["current"] == 1
    assert "4096 bytes allocated" in torch.cuda.memory_summary()


def test_a_pool_holds_what_is_allocated_in_its_block(gpu):
    pools = []
    gpu.session.allocate, allocate = lambda *call: (pools.append(call[3]), allocate(*call)), gpu.session.allocate
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        x = torch.empty(4, device="cuda")
    y = torch.empty(4, device="cuda")
    assert pools == [pool.id[1], 0]
    assert pool.use_count() == 1
    del x, y


def test_an_allocator_of_its_own_is_not_simulated(gpu):
    with pytest.raises(NotSimulatedError, match="MemPool with an allocator"):
        torch.cuda.MemPool(object())


def test_what_frees_caches_does_nothing(gpu):
    assert gpu.calls_of(torch.cuda.empty_cache) == []
    assert torch.cuda.get_allocator_backend() == "native"
    assert torch.cuda.graph_pool_handle() != torch.cuda.graph_pool_handle()
