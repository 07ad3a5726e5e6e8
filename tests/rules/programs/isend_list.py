"""Sent buffers and their handles are kept in a list of tuples; a buffer is changed before the wait."""
# ranks: 2

import torch
import torch.distributed as dist

dist.init_process_group("nccl")
rank = dist.get_rank()
torch.cuda.set_device(0)
sends = []
if rank == 0:
    y = torch.rand(256, device="cuda")
    for _ in range(2):
        sends.append((dist.isend(y, 1), y))
        y.mul_(2)  # expect-run: SYN602
    for work, _ in sends:
        work.wait()
else:
    for _ in range(2):
        x = torch.empty(256, device="cuda")
        dist.recv(x, 0)
torch.cuda.synchronize()
dist.destroy_process_group()
