"""DistributedDataParallel: gradient buckets are reduced while the backward pass goes on."""

import os

import torch
import torch.distributed as dist
from torch import nn

rank = int(os.environ.get("LOCAL_RANK", "0"))
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
torch.manual_seed(0)
layers = [layer for _ in range(6) for layer in (nn.Linear(512, 512), nn.ReLU())]
model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers).cuda(), device_ids=[rank], bucket_cap_mb=1)
optimizer = torch.optim.AdamW(model.parameters())
for step in range(6):
    loss = model(torch.randn(32, 512, device="cuda")).square().mean()
    optimizer.zero_grad()
    if step % 3 == 2:
        with model.no_sync():
            loss.backward()
    else:
        loss.backward()
    optimizer.step()
    total = loss.detach().clone()
    dist.all_reduce(total)
    print(rank, step, total.item())
dist.barrier()
dist.destroy_process_group()
