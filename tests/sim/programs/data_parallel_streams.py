"""nn.DataParallel while side streams are current, and a backward pass in another thread than the forward pass."""

from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

torch.manual_seed(0)
model = nn.DataParallel(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)).cuda(), [0, 1])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
side = torch.cuda.Stream(0)
x = torch.randn(6, 4, device="cuda")
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        optimizer.zero_grad()
        model(x).pow(2).mean().backward()
        optimizer.step()
torch.cuda.current_stream().wait_stream(side)
assert model(x).shape == (6, 2)

layer = nn.Linear(4, 4).cuda()
with torch.cuda.stream(side):
    side.wait_stream(torch.cuda.default_stream())
    loss = layer(x).exp().sum()
torch.cuda.current_stream().wait_stream(side)
with ThreadPoolExecutor(1) as executor:
    executor.submit(loss.backward).result()
assert layer.weight.grad.isfinite().all()


def forward(part):
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.default_stream())
    with torch.cuda.stream(stream):
        out = layer(part).sigmoid().sum()
    torch.cuda.default_stream().wait_stream(stream)
    return out


layer.zero_grad()
with ThreadPoolExecutor(2) as executor:
    losses = list(executor.map(forward, [x[:3], x[3:]]))
(losses[0] + losses[1]).backward()
assert layer.weight.grad.isfinite().all()
