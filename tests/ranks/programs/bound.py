"""Groups that are created with `device_id` and with NCCL's options."""

import os
import warnings

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

warnings.simplefilter("ignore")
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(device)
dist.init_process_group("nccl", device_id=device)
rank = dist.get_rank()
dist.barrier()

options = dist.ProcessGroupNCCL.Options(is_high_priority_stream=True)
options.config.min_ctas = 2
both, first = dist.new_group([0, 1], pg_options=options), dist.new_group([0], backend="gloo")
x = torch.ones(2, device=device)
dist.all_reduce(x, group=both)
assert x.tolist() == [2, 2]
if rank == 0:
    dist.barrier(group=first)
objects = [None, None]
dist.all_gather_object(objects, rank)
assert objects == [0, 1]
for shape in ((2,), (2, 1), (1, 2)):
    assert init_device_mesh("cuda", shape).get_group(0).size() == shape[0]
dist.destroy_process_group()
