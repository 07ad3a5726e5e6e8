"""Groups with one backend per device type, which exchange host and GPU tensors side by side."""

import pytest
import torch
import torch.distributed as dist

from syncheck.sim import device_kind
from syncheck.sim.nccl_groups import is_mixed

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="this torch has no torch.distributed")
BOTH = "cpu:gloo,cuda:nccl"


@pytest.fixture
def mixed(gpu):
    dist.init_process_group(BOTH, store=dist.HashStore(), rank=0, world_size=1)
    yield gpu
    dist.destroy_process_group()


@pytest.mark.parametrize(
    ("backend", "expected"),
    [(BOTH, True), ("cuda:nccl,cpu:gloo", True), ("nccl", False), ("cuda:nccl", False), ("gloo", False), (None, False)],
)
def test_two_backends_are_requested_by_device_type(gpu, backend, expected):
    assert device_kind.simulated().name == "cuda"
    assert is_mixed(backend) is expected


def test_the_program_sees_the_requested_backends(mixed):
    assert dist.get_backend() == BOTH
    assert dist.get_backend_config() == BOTH
    assert dist.get_backend(dist.new_group([0])) == BOTH
    assert dist.get_backend(dist.new_group([0], backend="nccl")) == "nccl"


def test_collectives_of_gpu_tensors_use_nccl(mixed):
    tensor = torch.ones(3, device="cuda")
    calls = mixed.calls_of(lambda: dist.all_reduce(tensor, async_op=True).wait())
    assert any("all_reduce" in call or "allreduce" in call for call in calls)
    assert tensor.tolist() == [1.0] * 3


def test_functional_collectives_run_in_mixed_groups(mixed):
    from torch.distributed import _functional_collectives as functional

    made = functional.all_reduce(torch.ones(2, device="cuda"), "sum", dist.group.WORLD)
    assert made.tolist() == [1.0, 1.0]


def test_objects_are_exchanged_on_the_host(mixed):
    found = [None]
    calls = mixed.calls_of(lambda: dist.all_gather_object(found, {"a": 1}))
    assert found == [{"a": 1}]
    assert calls == []


def test_a_barrier_makes_the_host_wait_only_with_device_ids(mixed):
    retained = torch.ones(3, device="cuda")
    assert mixed.calls_of(dist.barrier) == []
    assert mixed.calls_of(lambda: dist.barrier(device_ids=[0])) != []
    assert retained.tolist() == [1.0] * 3
