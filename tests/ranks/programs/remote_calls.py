"""`torch.distributed.rpc` works beside the simulated GPUs."""

import os
import warnings

import torch
from torch.distributed import rpc

warnings.simplefilter("ignore")
rank = int(os.environ["RANK"])
rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2)
if rank == 0:
    assert rpc.rpc_sync("worker1", torch.add, args=(torch.ones(2), 1)).tolist() == [2, 2]
rpc.shutdown()
x = torch.ones(2, device="cuda")
for _ in range(10):
    x += rank
assert x.sum().item() == 2 + 20 * rank
