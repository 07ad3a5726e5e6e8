""" "nccl" as a backend."""

import pytest
import torch
import torch.distributed as dist

from syncheck.sim import device_kind
from syncheck.sim.nccl import _for_gloo, _is_nccl

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="this torch has no torch.distributed")


@pytest.fixture(autouse=True)
def simulate_cuda():
    name = device_kind.simulated().name
    device_kind.choose("cuda")
    yield
    device_kind.choose(name)


@pytest.mark.parametrize(
    ("backend", "is_nccl"),
    [(None, True), ("nccl", True), ("NCCL", True), ("cpu:gloo,cuda:nccl", True), ("gloo", False), ("mpi", False)],
)
def test_nccl_is_the_default_with_gpus(backend, is_nccl):
    assert _is_nccl(backend) is is_nccl


def test_nccl_only_options_are_omitted_for_gloo():
    assert _for_gloo({"device_id": 1, "pg_options": 2, "timeout": 3}) == {"timeout": 3}


@pytest.mark.parametrize(("backend", "shown"), [("nccl", "nccl"), ("gloo", "gloo")])
def test_a_group_reports_the_requested_backend(gpu, backend, shown):
    dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    try:
        assert dist.get_backend() == shown
        assert dist.is_nccl_available()
        assert dist.get_backend(dist.new_group([0], backend="gloo")) == "gloo"
        assert dist.get_backend(dist.new_group([0])) == shown
    finally:
        dist.destroy_process_group()


def test_objects_are_exchanged_on_the_gpu(gpu):
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    try:
        found = [None]
        calls = gpu.calls_of(lambda: dist.all_gather_object(found, {"a": 1}))
        assert found == [{"a": 1}]
        assert any("cuda:0" in call for call in calls)
    finally:
        dist.destroy_process_group()


def test_coalesced_messages_share_one_handle(gpu):
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    try:
        tensors = [torch.ones(2, device="cuda") for _ in range(2)]
        with dist._coalescing_manager(async_ops=True) as manager:
            for tensor in tensors:
                dist.all_reduce(tensor)
        calls = gpu.calls_of(manager.wait)
        assert any(call.startswith("wait cuda:0") for call in calls)
    finally:
        dist.destroy_process_group()
