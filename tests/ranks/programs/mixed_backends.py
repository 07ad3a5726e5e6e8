"""A thread exchanges host tensors while the program trains, in one group: ranks need not agree on the order."""

import threading
import time

import torch
import torch.distributed as dist

dist.init_process_group("cpu:gloo,cuda:nccl")
rank = dist.get_rank()
torch.cuda.set_device(rank)
found = []


def exchange():
    for number in range(8):
        time.sleep(0.002 * (rank + 1))
        objects = [None] * dist.get_world_size()
        dist.all_gather_object(objects, (rank, number))
        found.append(objects)


thread = threading.Thread(target=exchange)
thread.start()
gradient = torch.ones(64, device="cuda")
for _ in range(40):
    dist.all_reduce(gradient)
    gradient /= dist.get_world_size()
thread.join()
assert found == [[(0, number), (1, number)] for number in range(8)], found
assert gradient.sum().item() == 64
dist.barrier()
dist.destroy_process_group()
