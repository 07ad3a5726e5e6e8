"""Only the first rank uses the time of a step, after it has waited for the GPU."""

import time

import torch
import torch.distributed as dist

dist.init_process_group("nccl")
rank = dist.get_rank()
torch.cuda.set_device(rank % torch.cuda.device_count())
x = torch.randn(64, 64, device="cuda")
torch.cuda.synchronize()
begin = time.time()
for step in range(6):
    y = x @ x
    end = time.time()
    seconds = end - begin
    begin = end
    if rank == 0:
        y.sum().item()
        print(f"step {step}: {seconds:.4f} s")
dist.destroy_process_group()
