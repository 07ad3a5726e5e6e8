"""Each rank makes three steps, of which the second has a race. Without ranks, with "spawn", it spawns them itself."""

import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def train():
    side = torch.cuda.Stream()
    weight = torch.nn.Parameter(torch.ones(4, device="cuda"))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for step in range(3):
        if step == 1:
            x = torch.ones(4, device="cuda")
            with torch.cuda.stream(side):
                y = x * 2
        weight.sum().backward()
        optimizer.step()


def spawned(rank, size):
    dist.init_process_group("nccl", f"tcp://127.0.0.1:{os.environ['PORT']}", rank=rank, world_size=size)
    train()
    dist.destroy_process_group()


if __name__ == "__main__":
    if sys.argv[1:] == ["spawn"]:
        mp.spawn(spawned, args=(2,), nprocs=2)
    else:
        dist.init_process_group("nccl")
        train()
        dist.destroy_process_group()
