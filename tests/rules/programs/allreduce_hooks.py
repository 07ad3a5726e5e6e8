"""Gradients are reduced in hooks with async_op; the optimizer steps without waiting."""

import torch
import torch.distributed as dist

dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
model = torch.nn.Linear(32, 8).cuda()
works = []


def reduce(param):
    works.append(dist.all_reduce(param.grad, async_op=True))


for param in model.parameters():
    param.register_post_accumulate_grad_hook(reduce)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
for _ in range(2):
    model(torch.rand(4, 32, device="cuda")).mean().backward()
    optimizer.step()  # expect-run: SYN601
    for work in works:
        work.wait()
    works.clear()
    optimizer.zero_grad()
torch.cuda.synchronize()
dist.destroy_process_group()
