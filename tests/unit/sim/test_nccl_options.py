"""The options of NCCL groups, in a build of torch without NCCL."""

import pytest
import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from syncheck.instrument.patching import Patches
from syncheck.sim.nccl_options import install_options

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="this torch has no torch.distributed")


@pytest.mark.skipif(hasattr(dist, "ProcessGroupNCCL"), reason="this torch has NCCL")
def test_a_group_is_created_with_options(gpu):
    options = dist.ProcessGroupNCCL.Options(is_high_priority_stream=True)
    options.config.max_ctas = 4
    assert (options.is_high_priority_stream, options.config.max_ctas, options.config.min_ctas) == (True, 4, 1)
    assert distributed_c10d.ProcessGroupNCCL is dist.ProcessGroupNCCL
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1, pg_options=options)
    x = torch.ones(2, device="cuda")
    dist.all_reduce(x, group=dist.new_group([0], pg_options=options))
    assert x.tolist() == [1, 1]
    dist.destroy_process_group()


def test_a_class_of_torch_is_kept(gpu, monkeypatch):
    for module in (dist, distributed_c10d):
        monkeypatch.setattr(module, "ProcessGroupNCCL", object, raising=False)
    install_options(Patches())
    assert dist.ProcessGroupNCCL is distributed_c10d.ProcessGroupNCCL is object
