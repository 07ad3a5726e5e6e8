"""Buckets are reduced asynchronously and kept in a dict of handles; a bucket is refilled before its wait."""

import torch
import torch.distributed as dist


class Bucketer:
    def __init__(self, n, size):
        self.buckets = {i: torch.zeros(size, device="cuda") for i in range(n)}
        self.handles = {}

    def add(self, index, gradient):
        self.buckets[index].copy_(gradient)  # expect-run: SYN602
        self.handles[index] = dist.all_reduce(self.buckets[index], async_op=True)

    def finish(self):
        for handle in self.handles.values():
            handle.wait()
        self.handles.clear()


dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
bucketer = Bucketer(2, 128)
gradients = [torch.rand(128, device="cuda") for _ in range(4)]
for number, gradient in enumerate(gradients):
    bucketer.add(number % 2, gradient)
bucketer.finish()
print(bucketer.buckets[0].sum().item())
dist.destroy_process_group()
