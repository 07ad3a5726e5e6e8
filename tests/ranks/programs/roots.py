"""A rank that only sends in a broadcast or a reduction may read its tensor meanwhile. With "all", every rank does."""

import sys

import torch
import torch.distributed as dist

dist.init_process_group("nccl")
rank = dist.get_rank()
torch.cuda.set_device(rank % torch.cuda.device_count())
for start, sender in ((dist.broadcast, 0), (dist.reduce, 1)):
    x = torch.full((1 << 16,), float(rank), device="cuda")
    work = start(x, 0, async_op=True)
    total = x.sum() if rank == sender or "all" in sys.argv else None
    work.wait()
    print(total)
dist.destroy_process_group()
