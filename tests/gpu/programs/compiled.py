"""torch.compile: a compiled model, trained, and a function that is compiled for new shapes."""

import torch
from torch import nn

model = torch.compile(nn.Sequential(nn.Linear(128, 128), nn.GELU(), nn.Linear(128, 1)).cuda())
optimizer = torch.optim.AdamW(model.parameters())
for step in range(5):
    loss = model(torch.randn(16 + 16 * (step % 2), 128, device="cuda")).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())


@torch.compile(mode="reduce-overhead")
def smooth(x):
    return torch.softmax(x.sin() + x.cos(), dim=-1).sum(dim=0)


for size in (32, 32, 64):
    print(smooth(torch.randn(size, 64, device="cuda")).norm().item())


@torch.compile(fullgraph=True)
def scale(x):
    return x.sin() * 2


print(scale(torch.ones(8, device="cuda")).sum().item())
