"""Placement of storages on virtual devices, and their lifetimes."""

import pytest
import torch

from syncheck.instrument.torch_internals import storage_key_of
from syncheck.semantics.copies import HOST_DEVICE
from syncheck.sim.errors import NotSimulatedError
from syncheck.sim.gpu_trace import GpuTrace
from syncheck.sim.memory import Memory, parts_of_sparse
from syncheck.sim.null_monitor import NoSites, NullMonitor
from syncheck.sim.virtual_gpus import TOTAL_MEMORY, VirtualGpus


class Monitor(NullMonitor):
    def __init__(self):
        self.calls, self.views = [], []

    def allocate(self, allocation, home, n_bytes, pool, site):
        self.calls.append(("allocate", allocation, home, n_bytes, pool))

    def free(self, allocation, site):
        self.calls.append(("free", allocation))

    def view(self, *shape, is_partial=False):
        self.views.append(shape)
        return len(self.views)


@pytest.fixture
def monitor():
    return Monitor()


@pytest.fixture
def memory(monitor):
    gpus = VirtualGpus(2, monitor, NoSites())
    return Memory(gpus, GpuTrace(gpus))


def test_a_tensor_without_memory_of_its_own_is_not_in_registered_memory(memory):
    host = torch.empty(1024)
    memory.register_host(host.data_ptr(), 4096)
    assert memory.of(host[:4]).pinned
    inner = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=torch.jagged)
    assert memory.of(inner) is None


def shared_with(pinned, start=0):
    return torch.from_numpy(pinned.numpy()[start:])


def test_a_storage_in_exported_pinned_memory_has_its_allocation(memory, monitor):
    pinned = torch.ones(4)
    part = shared_with(pinned, 1)
    tag = memory.tag(pinned.untyped_storage(), HOST_DEVICE, 0, pinned=True)
    assert memory.of(part) is None
    memory.mark_exported(pinned)
    assert (memory.allocation_of(part), memory.of(part).pinned) == (tag.ident, True)
    assert memory.of(torch.ones(4)) is None
    memory.view(part)
    assert monitor.views == [(4, (3,), (1,), 4, "float32")]
    del part
    memory.flush()
    assert monitor.calls == [("allocate", 1, 0, 16, 0)]


def test_memory_is_no_longer_shared_after_the_end_of_its_owner(memory, monitor):
    pinned, freed = torch.ones(4), torch.ones(4)
    shared = shared_with(pinned)
    for owner in (pinned, freed):
        memory.tag(owner.untyped_storage(), HOST_DEVICE, 0, pinned=True)
        memory.mark_exported(owner)
    assert memory.of(shared).pinned
    memory.drop(storage_key_of(pinned))  # its memory may go to another tensor
    assert memory.of(shared) is None
    del freed, owner
    assert not memory.host_regions


def test_a_resized_storage_leaves_the_memory_that_it_shared(memory):
    pinned = torch.ones(4)
    memory.tag(pinned.untyped_storage(), HOST_DEVICE, 0, pinned=True)
    memory.mark_exported(pinned)
    pinned.untyped_storage().resize_(1 << 16)
    memory.resized(pinned.untyped_storage(), 0)
    assert not memory.host_regions
    memory.mark_exported(pinned)
    assert memory.host_regions.starting_at(pinned.data_ptr()).n_bytes == 1 << 16


def test_storages_in_registered_memory_have_one_allocation(memory, monitor):
    whole = torch.ones(4)
    part = shared_with(whole, 2)
    assert memory.register_host(whole.data_ptr(), 16)
    assert not memory.register_host(whole.data_ptr(), 16)
    assert memory.allocation_of(whole) == memory.allocation_of(part) == 1
    assert memory.unregister_host(whole.data_ptr())
    assert not memory.unregister_host(whole.data_ptr())
    assert (memory.of(whole), memory.of(part)) == (None, None)
    assert monitor.calls == [("allocate", 1, 0, 16, 0), ("free", 1)]


def test_exported_memory_cannot_be_registered(memory):
    pinned = torch.ones(4)
    memory.tag(pinned.untyped_storage(), HOST_DEVICE, 0, pinned=True)
    memory.mark_exported(pinned)
    assert not memory.register_host(pinned.data_ptr(), 16)
    assert not memory.unregister_host(pinned.data_ptr())


def test_a_storage_lives_from_its_tag_to_its_last_tensor(memory, monitor):
    x = torch.ones(4)
    tag = memory.tag(x.untyped_storage(), 1, 0)
    assert (memory.device(x), memory.device(x[1:]), memory.allocation_of(x)) == (1, 1, tag.ident)
    part = x[1:]
    del x
    memory.flush()
    assert monitor.calls == [("allocate", 1, 2, 16, 0)]
    del part
    memory.flush()
    assert monitor.calls[1:] == [("free", 1)]


class Sites(NoSites):
    def here(self):
        return 7


class Frees(NullMonitor):
    def __init__(self):
        self.sites = []

    def free(self, allocation, site):
        self.sites.append(site)


SHARED = {
    "by nothing": (lambda gpus, memory: None, 0),
    "by its own stream": (lambda gpus, memory: memory.used_by(gpus.default_stream(1)), 0),
    "by another stream": (lambda gpus, memory: memory.used_by(gpus.default_stream(0)), 7),
    "with memory of another stream": (lambda gpus, memory: memory.tag(torch.ones(1).untyped_storage(), 0, 0), 7),
    "by record_stream": (lambda gpus, memory: gpus.monitor.record_stream(1, 0, 2, 0), 7),
    "by a graph": (lambda gpus, memory: gpus.monitor.capture_begin(1, 2, 0), 7),
}


@pytest.mark.parametrize(("share", "site"), SHARED.values(), ids=SHARED)
def test_the_call_site_of_a_free_is_determined_once_it_may_matter(share, site):
    monitor = Frees()
    gpus = VirtualGpus(2, monitor, Sites())
    memory = Memory(gpus, GpuTrace(gpus))
    x = torch.ones(4)
    memory.tag(x.untyped_storage(), 1, 0)
    share(gpus, memory)
    memory.flush()
    monitor.sites.clear()
    del x
    memory.flush()
    assert monitor.sites == [site]


def test_the_call_site_of_freeing_pinned_memory_is_always_determined():
    monitor = Frees()
    gpus = VirtualGpus(1, monitor, Sites())
    memory = Memory(gpus, GpuTrace(gpus))
    memory.tag_pinned(torch.ones(4).untyped_storage())
    memory.flush()
    assert monitor.sites == [7]


def test_plain_host_memory_has_no_tag(memory):
    assert memory.of(torch.ones(4)) is None
    assert memory.device(torch.ones(4)) == HOST_DEVICE
    assert memory.allocation_of(torch.ones(4)) == 0


def test_pinned_memory_belongs_to_the_host(memory, monitor):
    x = torch.ones(4)
    memory.tag_pinned(x.untyped_storage())
    assert memory.of(x).pinned
    assert monitor.calls == [("allocate", 1, 0, 16, 0)]


def test_memory_is_counted_by_device(memory):
    device = memory._gpus.devices[0]
    x, y = torch.ones(4), torch.ones(8)
    memory.tag(x.untyped_storage(), 0, 0)
    memory.tag(y.untyped_storage(), 0, 0)
    assert (device.memory.current, device.memory.peak) == (1024, 1024)
    del y
    memory.flush()
    z = torch.ones(2)
    memory.tag(z.untyped_storage(), 0, 0)
    assert (device.memory.current, device.memory.peak) == (1024, 1024)


def test_a_full_device_raises_out_of_memory(memory):
    memory._gpus.devices[0].memory.allocate(TOTAL_MEMORY)
    with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate 16 bytes"):
        memory.tag(torch.ones(4).untyped_storage(), 0, 0)


def test_memory_of_another_size_is_a_new_allocation(memory, monitor):
    x = torch.ones(4)
    storage = x.untyped_storage()
    memory.tag(storage, 0, 0)
    memory.resized(storage, 0)
    assert len(monitor.calls) == 1
    storage.resize_(64)
    memory.resized(storage, 0)
    assert monitor.calls[1:] == [("free", 1), ("allocate", 2, 1, 64, 0)]


def test_a_tensor_moves_to_where_it_turns_out_to_belong(memory, monitor):
    x = torch.ones(4)
    memory.place(x, HOST_DEVICE, 0)
    memory.place(x, 0, 0)
    memory.place(x, 0, 0)
    memory.place(x, 1, 0)
    memory.place(x, HOST_DEVICE, 0)
    assert memory.of(x) is None
    assert [call[:3] for call in monitor.calls] == [("allocate", 1, 1), ("free", 1), ("allocate", 2, 2), ("free", 2)]


def test_equal_bytes_share_a_view(memory, monitor):
    x = torch.ones(4, 4)
    memory.tag(x.untyped_storage(), 0, 0)
    assert memory.view(x) == memory.view(x.detach()) != memory.view(x.t()[1])
    assert monitor.views == [(0, (4, 4), (4, 1), 4, "float32"), (4, (4,), (4,), 4, "float32")]


@pytest.mark.filterwarnings("ignore:Sparse")
def test_accesses_to_a_sparse_tensor_are_those_to_its_parts(memory):
    sparse = torch.eye(3).to_sparse()
    for part in parts_of_sparse(sparse):
        memory.tag(part.untyped_storage(), 0, 0)
    accesses = []
    memory.add_access(accesses, sparse, is_write=True)
    memory.add_access(accesses, torch.ones(3), is_write=True)
    assert [(allocation, write) for allocation, _, write in accesses] == [(1, True), (2, True)]
    assert memory.device(sparse) == 0
    with pytest.raises(NotSimulatedError, match="layout"):
        parts_of_sparse(torch.eye(3).to_mkldnn())


def test_exported_buffers_are_remembered_while_they_live(memory):
    x = torch.ones(4)
    assert memory.mark_exported(x) is None
    tag = memory.tag(x.untyped_storage(), HOST_DEVICE, 0, pinned=True)
    assert memory.mark_exported(x) is tag
    assert [tag for tag, _ in memory.exported()] == [tag]
    del x
    assert memory.exported() == []


def test_a_forked_child_reports_nothing(memory, monitor):
    x = torch.ones(4)
    memory.tag(x.untyped_storage(), 0, 0)
    memory.forget_frees()
    del x
    memory.flush()
    assert len(monitor.calls) == 1
