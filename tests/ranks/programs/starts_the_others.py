"""Rank 0 starts the other one, as Lightning does: by its script, with a local rank and no other."""

import os
import subprocess
import sys

import torch
import torch.distributed as dist

others = []
if "LOCAL_RANK" not in os.environ:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": os.environ["PORT"], "WORLD_SIZE": "2", "LOCAL_RANK": "0"}
    command = [sys.executable, os.path.abspath(sys.argv[0]), *sys.argv[1:]]
    others.append(subprocess.Popen(command, env={**os.environ, "LOCAL_RANK": "1"}))
rank = int(os.environ["LOCAL_RANK"])
dist.init_process_group("nccl", rank=rank, world_size=2)
torch.cuda.set_device(rank)
x = torch.ones(4, device="cuda")
work = dist.all_reduce(x, async_op=True)
y = x + 1
work.wait()
dist.destroy_process_group()
for other in others:
    assert other.wait() == 0
