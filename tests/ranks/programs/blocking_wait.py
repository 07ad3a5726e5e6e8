"""A wait that blocks the host orders every stream; one that does not orders the current stream alone."""

import datetime
import sys

import torch
import torch.distributed as dist

dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
torch.cuda.set_device(0)
x = torch.ones(1024, device="cuda")
side = torch.cuda.Stream()
work = dist.all_reduce(x, async_op=True)
work.wait(datetime.timedelta(seconds=60)) if sys.argv[1:] == ["limit"] else work.wait()
with torch.cuda.stream(side):
    print(x.sum().item())
dist.destroy_process_group()
