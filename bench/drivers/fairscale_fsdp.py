"""fairscale: FSDP of one rank, in single and in mixed precision, and with parameters on the host.

repository: facebookresearch/fairscale
devices: 1
files: fairscale/nn/data_parallel/fully_sharded_data_parallel.py fairscale/internal/reduce_scatter_bucketer.py
"""

import torch
import torch.distributed as dist
from fairscale.nn import FullyShardedDataParallel
from torch import nn


def train(**settings):
    torch.manual_seed(0)
    device = "cpu" if settings.get("move_params_to_cpu") else "cuda"
    inner = [FullyShardedDataParallel(nn.Linear(64, 64).to(device), **settings) for _ in range(3)]
    model = FullyShardedDataParallel(nn.Sequential(*inner, nn.Linear(64, 8).to(device)), **settings)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    batches = [torch.randn(32, 64).to("cuda") for _ in range(3)]  # it waits for the GPU
    for data in batches:
        losses.append(model(data).float().square().mean())
        optimizer.zero_grad()
        losses[-1].backward()
        optimizer.step()
    full = model.state_dict()
    model.load_local_state_dict(model.local_state_dict())
    print([value.sum().item() for value in full.values()])
    print(settings, [loss.item() for loss in losses])
    print([parameter.sum().item() for parameter in model.parameters()])


dist.init_process_group("nccl", rank=0, world_size=1, store=dist.HashStore())
train()
train(mixed_precision=True)
train(mixed_precision=True, fp32_reduce_scatter=True)
train(mixed_precision=True, move_params_to_cpu=True)
dist.destroy_process_group()
