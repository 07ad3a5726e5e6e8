"""fully_shard: parameters are gathered and gradients are scattered on streams of their own."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

rank = int(os.environ.get("LOCAL_RANK", "0"))
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
torch.manual_seed(0)
model = nn.Sequential(*[nn.TransformerEncoderLayer(256, 4, 512, batch_first=True, dropout=0.0) for _ in range(4)]).cuda()
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
for layer in model:
    fully_shard(layer, mp_policy=policy)
fully_shard(model, mp_policy=policy)
optimizer = torch.optim.AdamW(model.parameters())
for step in range(4):
    optimizer.zero_grad()
    loss = model(torch.randn(8, 32, 256, device="cuda")).float().square().mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print(rank, step, loss.item())
dist.barrier()
dist.destroy_process_group()
