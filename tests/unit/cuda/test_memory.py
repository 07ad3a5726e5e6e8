"""Mapping of tensors to allocations."""

import gc

import pytest
import torch

from syncheck.cuda import memory as module
from syncheck.cuda.memory import UNKNOWN_POOL


@pytest.fixture
def memory(gpu):
    return gpu.cuda.memory


def test_each_address_in_a_block_has_its_own_entry(gpu, memory):
    x = torch.ones(4, 4)
    whole, row = memory.access(x, is_write=False), memory.access(x[1], is_write=True)
    assert whole[0] == row[0] == memory.allocation_of(x) == memory.allocation_of(x[2])
    assert whole[1] != row[1]
    assert (whole[2], row[2]) == (False, True)
    assert memory.live[x[1].data_ptr()].offset == 16


def test_equal_extents_share_a_view_and_strided_ones_do_not(memory):
    x, y = torch.ones(4, 4), torch.ones(16)
    assert memory.access(x, is_write=False)[1] == memory.access(y, is_write=False)[1]
    assert memory.access(x.t(), is_write=False)[1] != memory.access(x[:, :2], is_write=False)[1]
    assert memory.exact_view(x) != memory.exact_view(y)


def test_an_empty_tensor_has_no_access(memory):
    assert memory.access(torch.empty(0), is_write=True) is None
    assert memory.find(torch.empty(0)) is None


def test_memory_with_an_unseen_allocation_has_an_unknown_pool(gpu, memory):
    with torch.utils._python_dispatch._disable_current_modes():
        old = torch.zeros(8)
    memory.access(old, is_write=False)
    (call,) = gpu.monitor.named("allocate")
    assert call[3:6] == (32, UNKNOWN_POOL, 0)


def test_dead_memory_is_freed_before_the_next_call(gpu, memory):
    x = torch.ones(4)
    memory.access(x, is_write=False)
    ident = memory.allocation_of(x)
    del x
    gc.collect()
    assert [entry.ident for entry in memory.dead] == [ident]
    memory.release_dead()
    assert [call[1] for call in gpu.monitor.named("free")] == [ident]
    assert not memory.dead


def test_inner_addresses_are_forgotten_with_their_block(memory):
    x = torch.ones(4, 4)
    row = x[1]
    memory.access(row, is_write=False)
    inner = row.data_ptr()
    assert inner in memory.live
    memory.freed(x.data_ptr())
    assert inner not in memory.live
    memory.freed(x.data_ptr())


def test_frees_have_call_sites_once_a_side_stream_exists(gpu, memory):
    x = torch.ones(4)
    gpu.current.handle = 7
    kept = torch.empty(1)
    del x
    (call,) = gpu.monitor.named("free")
    assert kept.numel() == 1
    assert gpu.cuda.reporter.sites.location(call[2]).frame.source.strip() == "del x"


def test_remembered_tensor_lists_are_bounded(memory, monkeypatch):
    monkeypatch.setattr(module, "_MAX_LISTS", 3)
    tensors = [torch.ones(2) for _ in range(4)]
    for start in range(3):
        part = tensors[start : start + 2]
        known = memory.remember(tuple(t.data_ptr() for t in part), part)
        assert [write for *_, write in known.writes] == [True, True]
        assert [write for *_, write in known.reads] == [False, False]
    assert len(memory.lists) == 1
    with torch.utils._python_dispatch._disable_current_modes():
        old = torch.zeros(8)
    assert memory.remember((old.data_ptr(),), [old]) is None


@pytest.mark.filterwarnings("ignore:Sparse")
def test_a_tensor_without_storage_has_no_allocation(memory):
    with torch.utils._python_dispatch._disable_current_modes():
        sparse = torch.eye(2).to_sparse()
    assert memory.allocation_of(sparse) == 0
