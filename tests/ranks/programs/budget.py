"""A race on every step of two ranks, of which a budget checks some: says at which steps a window was open."""

import torch
import torch.distributed as dist

from syncheck.run import run

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
    if run.active().sampler.is_open:
        opened.append(step)
print("opened:", opened, flush=True)
dist.destroy_process_group()
