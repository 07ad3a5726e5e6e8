"""Handles by bucket in a defaultdict of lists; the buckets are unflattened too early."""

from collections import defaultdict

import torch
import torch.distributed as dist

dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
buckets = [torch.rand(32, device="cuda") for _ in range(2)]
handles = defaultdict(list)
for number, bucket in enumerate(buckets):
    handles[number].append(dist.all_reduce(bucket, async_op=True))
means = []
for number, bucket in enumerate(buckets):
    means.append(bucket.mean())  # expect-run: SYN601
for several in handles.values():
    for handle in several:
        handle.wait()
print(sum(mean.item() for mean in means))
dist.destroy_process_group()
