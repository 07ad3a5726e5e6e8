"""Groups that are bound to a GPU by `device_id`, and groups with NCCL's options."""

import os
import warnings

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

warnings.simplefilter("error")
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(device)
dist.init_process_group("nccl", device_id=device)
rank = dist.get_rank()
assert dist.group.WORLD.bound_device_id == device
dist.barrier()  # torch warns if the group is not bound

options = dist.ProcessGroupNCCL.Options(is_high_priority_stream=True)
options.config.min_ctas = 2
both, first = dist.new_group([0, 1], pg_options=options), dist.new_group([0])
assert both.bound_device_id == dist.group.WORLD.bound_device_id == device
x = torch.ones(2, device=device)
dist.all_reduce(x, group=both)
assert x.tolist() == [2, 2]
if rank == 0:
    dist.barrier(group=first)
objects = [None, None]
dist.all_gather_object(objects, rank)
assert objects == [0, 1]
assert init_device_mesh("cuda", (2,)).get_group().bound_device_id == device
dist.destroy_process_group()
