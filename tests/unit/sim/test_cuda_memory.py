"""Memory functions of `torch.cuda`."""

import pickle

import pytest
import torch
from torch.cuda import _memory_viz

from syncheck.sim.errors import NotSimulatedError
from syncheck.sim.virtual_gpus import TOTAL_MEMORY


def test_allocated_memory_is_that_of_live_tensors(gpus):
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


def test_a_snapshot_lists_allocated_memory(gpus, tmp_path):
    x = torch.empty(100, device="cuda:1")
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool), torch.cuda.stream(side := torch.cuda.Stream()):
        y = torch.empty(1 << 20, device="cuda:0")
    torch.empty(5)
    first, second = torch.cuda.memory_snapshot()
    assert (first["device"], first["address"], first["stream"]) == (1, x.data_ptr(), 0)
    assert (first["total_size"], first["requested_size"], first["segment_type"]) == (512, 400, "small")
    assert [(block["size"], block["state"]) for block in first["blocks"]] == [(512, "active_allocated")]
    assert (second["device"], second["stream"], second["segment_pool_id"]) == (0, side.cuda_stream, pool.id)
    assert pool.snapshot() == [second]
    torch.cuda.memory._dump_snapshot(str(tmp_path / "memory.pickle"))
    dumped = pickle.loads((tmp_path / "memory.pickle").read_bytes())
    assert dumped["segments"] == [first, second]
    assert dumped["device_traces"] == [[], []]
    del x, y
    assert torch.cuda.memory_snapshot() == []


def test_torchs_own_viewer_reads_a_snapshot(gpu):
    x = torch.empty(1 << 20, device="cuda")
    assert "4.0MiB" in _memory_viz.segsum(torch.cuda.memory._snapshot())
    del x


def test_statistics_are_nested_or_flat(gpu):
    x = torch.empty(1024, device="cuda")
    assert torch.cuda.memory_stats()["allocated_bytes.all.current"] == x.nbytes
    assert torch.cuda.memory_stats_as_nested_dict()["allocation"]["all"]["current"] == 1
    assert torch.cuda.memory_stats()["requested_bytes.small_pool.current"] == x.nbytes
    assert "4096 B" in torch.cuda.memory_summary()


def test_memory_is_allocated_in_multiples_of_512_bytes(gpu):
    x = torch.empty(1, device="cuda")
    assert torch.cuda.memory_allocated() == torch.cuda.memory_reserved() == 512
    del x
    assert torch.cuda.memory_allocated() == 0
    torch.cuda.reset_accumulated_memory_stats()
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == 0


def test_raw_allocations_are_counted(gpu):
    side = torch.cuda.Stream()
    with gpu.calling() as calls:
        address = torch.cuda.caching_allocator_alloc(1000, stream=side)
        assert torch.cuda.memory_allocated() == 1024
        torch.cuda.caching_allocator_delete(address)
    assert calls == ["allocate 1 on s1", "free 1"]
    assert torch.cuda.memory_allocated() == 0
    with pytest.raises(RuntimeError, match="invalid device pointer"):
        torch.cuda.caching_allocator_delete(address)


def test_an_out_of_memory_error_notifies_observers(gpu):
    seen = []
    torch._C._cuda_attach_out_of_memory_observer(lambda *figures: seen.append(figures))
    with pytest.raises(
        torch.OutOfMemoryError, match=r"Tried to allocate 1024.00 GiB. GPU 0 has a total capacity of 80"
    ):
        torch.empty(1 << 40, dtype=torch.int8, device="cuda")
    assert seen == [(0, 1 << 40, 0, TOTAL_MEMORY)]
    assert torch.cuda.memory_stats()["num_ooms"] == 1


def test_a_pool_serves_allocations_within_its_block(gpu):
    pools = []
    gpu.session.allocate, allocate = lambda *call: (pools.append(call[3]), allocate(*call)), gpu.session.allocate
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        x = torch.empty(4, device="cuda")
    y = torch.empty(4, device="cuda")
    assert pools == [pool.id[1], 0]
    assert pool.use_count() == 1
    del x, y


def test_a_custom_allocator_is_not_simulated(gpu):
    with pytest.raises(NotSimulatedError, match="MemPool with a custom allocator"):
        torch.cuda.MemPool(object())


def test_emptying_the_cache_frees_nothing(gpu):
    assert gpu.calls_of(torch.cuda.empty_cache) == []  # as long as CUDA is not initialized
    torch.cuda.init()
    assert gpu.calls_of(torch.cuda.empty_cache) == ["empty_cache"]  # reported, for SYN807
    assert torch.cuda.memory_stats()["num_sync_all_streams"] == 1
    assert torch.cuda.get_allocator_backend() == "native"
    assert torch.cuda.graph_pool_handle() != torch.cuda.graph_pool_handle()
