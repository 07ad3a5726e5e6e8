"""A race on every step of two ranks, of which a budget checks some: says at which steps a window was open."""

import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from syncheck.run import run


def is_open() -> bool:
    """Return whether a window of a budget is open; without a budget there is none."""
    sampler = getattr(run.active(), "sampler", None)
    return sampler is not None and sampler.is_open


def train(rank: int, where: str) -> None:
    """Train as one rank; `where` is "" if the environment says who the others are."""
    if where:
        dist.init_process_group("nccl", init_method=f"file://{where}", rank=rank, world_size=2)
    else:
        dist.init_process_group("nccl")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    side = torch.cuda.Stream()
    kept = []
    opened = []
    for step in range(40):
        x = torch.ones(16, device="cuda")
        with torch.cuda.stream(side):
            y = x * 2
        kept.append((x, y))
        model(torch.ones(4, 8, device="cuda")).sum().backward()
        optimizer.step()
        if is_open():
            opened.append(step)
    sys.stdout.write(f"opened: {opened}\n")
    sys.stdout.flush()
    dist.destroy_process_group()


if __name__ == "__main__":
    if "RANK" in os.environ:
        train(0, "")
    else:
        with tempfile.TemporaryDirectory() as folder:
            mp.spawn(train, (f"{folder}/store",), nprocs=2)
