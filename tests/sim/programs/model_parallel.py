"""A model over two, three and four devices trains as it does on the CPU."""

import torch
from torch import nn


class Pipeline(nn.Module):
    def __init__(self, devices):
        super().__init__()
        self.devices = devices
        self.stages = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.GELU()).to(device) for device in devices)
        self.head = nn.Linear(8, 3).to(devices[-1])

    def forward(self, x):
        for stage, device in zip(self.stages, self.devices, strict=True):
            x = stage(x.to(device, non_blocking=False))
        return self.head(x)


def train(devices):
    torch.manual_seed(1)
    model = Pipeline(devices)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    generator = torch.Generator().manual_seed(2)
    losses = []
    for _ in range(5):
        x, y = torch.randn(16, 8, generator=generator), torch.randint(3, (16,), generator=generator)
        loss = nn.functional.cross_entropy(model(x), y.to(devices[-1]))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses += [loss.item(), norm.item()]
    assert all(p.grad.device == p.device for p in model.parameters())
    return torch.tensor(losses)


for count in (2, 3, 4):
    expected = train(["cpu"] * count)
    found = train([f"cuda:{index}" for index in range(count)])
    assert torch.allclose(found, expected, atol=1e-5), (count, found, expected)
