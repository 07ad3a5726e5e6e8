"""Functional collectives return new tensors, for which `wait_tensor` waits."""

import pytest
import torch
import torch.distributed as dist

from syncheck.instrument.torch_internals import tensor_owners
from syncheck.sim.functional import FunctionalCollectives

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="this torch has no torch.distributed")


@pytest.fixture
def job(gpu):
    pytest.importorskip("torch.distributed._functional_collectives")  # defines the operators
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    assert isinstance(gpu.simulator.distributed.functional, FunctionalCollectives)
    yield gpu
    dist.destroy_process_group()


@pytest.fixture
def x(job):
    return torch.ones(4, device="cuda")


def test_wait_tensor_waits_for_the_result(job, x):
    with job.calling() as calls:
        y = torch.ops._c10d_functional.all_reduce(x, "sum", dist.group.WORLD.group_name)
        torch.ops._c10d_functional.wait_tensor(y)
    made = [call.split()[0] for call in calls if not call.startswith(("allocate", "free"))]
    assert made == ["wait", "launch", "handle", "record", "wait"]


def test_gloo_releases_tensors_of_functional_collectives(job, x):
    gather = torch.ops._c10d_functional.all_gather_into_tensor
    for _ in range(300):
        gathered = gather(x, 1, dist.group.WORLD.group_name)
        assert (tensor_owners(x), tensor_owners(gathered)) == (1, 1)
