"""Memory that pending work needs after the program has released it."""

import pytest
import torch

from syncheck.sim.gpu_trace import GpuTrace
from syncheck.sim.memory import Memory
from syncheck.sim.null_monitor import NoSites, NullMonitor
from syncheck.sim.retained_storages import RetainedStorages, overwrite
from syncheck.sim.virtual_gpus import VirtualGpus


def done(stream):
    return lambda: False


def pending(stream):
    return lambda: True


@pytest.fixture
def memory():
    gpus = VirtualGpus(1, NullMonitor(), NoSites())
    return Memory(gpus, GpuTrace(gpus))


def on_gpu(memory, n=4):
    tensor = torch.arange(float(n))
    memory.tag(tensor.untyped_storage(), 0, 0)
    return tensor


def test_memory_held_by_the_program_is_not_reused(memory):
    retained, tensor = RetainedStorages(memory), on_gpu(memory)
    retained.keep(tensor)
    retained.poll(done)
    assert retained.available(1, 16) == []
    assert memory.of(tensor) is not None


def test_a_view_keeps_its_memory(memory):
    retained, tensor = RetainedStorages(memory), on_gpu(memory)
    retained.keep(tensor)
    view = tensor[1:]
    del tensor
    retained.poll(done)
    assert retained.available(1, 16) == []
    assert view.tolist() == [1, 2, 3]


def test_memory_needed_only_by_pending_work_is_reused_with_its_values(memory):
    retained, tensor = RetainedStorages(memory), on_gpu(memory)
    operand = retained.keep(tensor[2:])
    del tensor
    retained.poll(done)
    (freed,) = retained.available(1, 16)
    assert operand.tensor().tolist() == [2, 3]
    again = torch.empty(0).set_(retained.hand_out(freed), 0, (4,))
    again.fill_(7)
    assert operand.tensor().tolist() == [7, 7]
    assert retained.available(1, 16) == []


def test_other_streams_and_sizes_get_other_memory(memory):
    retained, tensor = RetainedStorages(memory), on_gpu(memory)
    retained.keep(tensor)
    del tensor
    retained.poll(done)
    assert retained.available(2, 16) == []
    assert retained.available(1, 2 << 20) == []


def test_record_stream_protects_memory_until_the_stream_is_done(memory):
    retained, tensor = RetainedStorages(memory), on_gpu(memory)
    retained.keep(tensor)
    retained.recorded[memory.of(tensor).ident] = {2}
    del tensor
    retained.poll(pending)
    assert retained.available(1, 16) == []


def test_memory_is_released_once_its_work_has_run(memory):
    retained, tensor = RetainedStorages(memory), on_gpu(memory)
    operand = retained.keep(tensor)
    del tensor
    retained.poll(done)
    retained.release(operand)
    assert retained.available(1, 16) == []
    assert not retained.by_key


def test_pending_work_keeps_the_old_memory_of_a_resized_storage(memory):
    retained, tensor = RetainedStorages(memory), on_gpu(memory)
    operand = retained.keep(tensor)
    retained.before_resize(tensor.untyped_storage(), done)
    tensor.untyped_storage().resize_(0)
    assert operand.tensor().tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(("is_pending", "n_available"), [(done, 1), (pending, 0)])
def test_record_stream_protects_the_old_memory_of_a_resized_storage(memory, is_pending, n_available):
    retained, tensor = RetainedStorages(memory), on_gpu(memory)
    retained.keep(tensor)
    retained.recorded[memory.of(tensor).ident] = {2}
    retained.before_resize(tensor.untyped_storage(), is_pending)
    tensor.untyped_storage().resize_(0)
    assert len(retained.available(1, 16)) == n_available


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64, torch.float64])
def test_overwritten_floats_are_nan(dtype):
    tensor = torch.ones(4, dtype=dtype)
    overwrite(torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage()), dtype)
    assert tensor.isnan().all()


def test_overwritten_integers_are_large():
    tensor = torch.ones(4, dtype=torch.int64)
    overwrite(torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage()), torch.int64)
    assert (tensor > 1 << 60).all()
