"""Activations wait in pinned host memory between forward and backward; some layers are computed twice instead."""

import torch
from torch import nn
from torch.autograd.graph import save_on_cpu
from torch.utils.checkpoint import checkpoint

model = nn.ModuleList([nn.Sequential(nn.Linear(256, 256), nn.GELU(), nn.Dropout(0.1)) for _ in range(6)]).cuda()
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler()
for step in range(5):
    x = torch.randn(64, 256, device="cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        for index, layer in enumerate(model):
            if index % 2:
                x = checkpoint(layer, x, use_reentrant=index % 4 == 1)
            else:
                with save_on_cpu(pin_memory=True):
                    x = layer(x)
        loss = x.float().square().mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    print(step, loss.item())
