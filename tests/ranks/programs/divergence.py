"""Ranks that do not agree; the argument says in what."""

import ctypes
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

dist.init_process_group("nccl")
rank, size = dist.get_rank(), dist.get_world_size()
torch.cuda.set_device(rank % torch.cuda.device_count())
x = torch.ones(4, device="cuda")
for _ in range(3):
    dist.all_reduce(x)
other = dist.new_group(list(range(size)))
odd = rank == size - 1


def operation():
    if odd:
        dist.broadcast(x, 0)  # at: operation
    else:
        dist.all_reduce(x)


def shape():
    dist.all_reduce(torch.ones(8 if odd else 4, device="cuda"))  # at: shape


def dtype():
    dist.all_reduce(torch.ones(4, device="cuda", dtype=torch.float64 if odd else torch.float32))  # at: dtype


def reduce():
    dist.all_reduce(x, dist.ReduceOp.MAX if odd else dist.ReduceOp.SUM)  # at: reduce


def root():
    dist.broadcast(x, 1 if odd else 0)  # at: root


def splits():
    mine, theirs = ([4, 3], [4, 2]) if rank == 0 else ([2, 2], [4, 2])  # rank 1 makes room for 4 from rank 0
    sent = torch.ones(sum(mine), device="cuda")
    dist.all_to_all_single(torch.empty(6, device="cuda"), sent, theirs, mine)  # at: splits


def fewer():
    if not odd:
        dist.all_reduce(x)  # at: fewer


def groups():
    first, second = (other, None) if odd else (None, other)
    dist.all_reduce(x, group=first)  # at: groups
    dist.all_reduce(x, group=second)


def message():
    if rank == 0:
        dist.send(torch.ones(4, device="cuda"), 1)
    else:
        dist.recv(torch.ones(8, device="cuda"), 0)  # at: message


def python():
    if odd:
        time.sleep(600)  # at: python
    dist.all_reduce(x)


def native():
    if odd:
        ctypes.PyDLL(None).sleep(600)  # which keeps the interpreter's lock  # at: native
    dist.all_reduce(x)


Path(f"ready-{rank}").touch()
globals()[sys.argv[1]]()
torch.cuda.synchronize()
dist.destroy_process_group()  # at: end
