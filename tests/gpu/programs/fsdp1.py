"""FullyShardedDataParallel, the first one: parameters are gathered on a stream of their own."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import BackwardPrefetch, MixedPrecision
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp.wrap import ModuleWrapPolicy

rank = int(os.environ.get("LOCAL_RANK", "0"))
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
torch.manual_seed(0)
model = nn.Sequential(*[nn.TransformerEncoderLayer(256, 4, 512, batch_first=True, dropout=0.0) for _ in range(4)])
model = FSDP(
    model.cuda(),
    auto_wrap_policy=ModuleWrapPolicy({nn.TransformerEncoderLayer}),
    backward_prefetch=BackwardPrefetch.BACKWARD_PRE,
    forward_prefetch=True,
    mixed_precision=MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32),
    device_id=rank,
    use_orig_params=True,
)
optimizer = torch.optim.AdamW(model.parameters())
for step in range(4):
    optimizer.zero_grad()
    loss = model(torch.randn(8, 32, 256, device="cuda")).float().square().mean()
    loss.backward()
    model.clip_grad_norm_(1.0)
    optimizer.step()
    print(rank, step, loss.item())
dist.barrier()
dist.destroy_process_group()
