"""A handle of a message is waited for twice, as one of a list of all handles may be."""

import torch
import torch.distributed as dist

dist.init_process_group("nccl")
torch.cuda.set_device(0)
values = torch.full((256,), float(dist.get_rank()), device="cuda")
work = dist.isend(values, 1) if dist.get_rank() == 0 else dist.irecv(values, 0)
for _ in range(2):
    work.wait()
assert values.sum().item() == 0
dist.destroy_process_group()
