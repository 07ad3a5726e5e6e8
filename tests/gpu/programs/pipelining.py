"""A schedule of torch.distributed.pipelining: each rank is a stage, activations are sent and received."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

rank = int(os.environ.get("LOCAL_RANK", "0"))
torch.cuda.set_device(rank)
device = torch.device("cuda", rank)
dist.init_process_group("nccl", device_id=device)
size = dist.get_world_size()
torch.manual_seed(0)
module = nn.Sequential(nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 128)).to(device)
stage = PipelineStage(module, rank, size, device)
schedule = Schedule1F1B(stage, n_microbatches=4, loss_fn=lambda output, target: (output - target).square().mean())
optimizer = torch.optim.AdamW(module.parameters())
for step in range(4):
    optimizer.zero_grad()
    x, target = torch.randn(32, 128, device=device), torch.zeros(32, 128, device=device)
    losses = []
    if size == 1:
        schedule.step(x, target=target, losses=losses)
    elif rank == 0:
        schedule.step(x)
    elif rank == size - 1:
        schedule.step(target=target, losses=losses)
    else:
        schedule.step()
    optimizer.step()
    print(rank, step, [loss.item() for loss in losses])
dist.barrier()
dist.destroy_process_group()
