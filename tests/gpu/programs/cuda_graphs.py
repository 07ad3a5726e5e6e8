"""CUDA graphs: a whole training step by hand, and callables made of modules."""

import torch
from torch import nn

model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), capturable=True)
static_x, static_y = torch.randn(64, 256, device="cuda"), torch.randn(64, 1, device="cuda")

side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        optimizer.zero_grad(set_to_none=True)
        nn.functional.mse_loss(model(static_x), static_y).backward()
        optimizer.step()
torch.cuda.current_stream().wait_stream(side)

graph = torch.cuda.CUDAGraph()
optimizer.zero_grad(set_to_none=True)
with torch.cuda.graph(graph):
    static_loss = nn.functional.mse_loss(model(static_x), static_y)
    static_loss.backward()
    optimizer.step()

for step in range(5):
    static_x.copy_(torch.randn(64, 256, device="cuda"))
    static_y.copy_(torch.randn(64, 1, device="cuda"))
    graph.replay()
    print(step, static_loss.item())

head = nn.Sequential(nn.Linear(1, 64), nn.ReLU(), nn.Linear(64, 1)).cuda()
graphed = torch.cuda.make_graphed_callables(head, (torch.randn(64, 1, device="cuda", requires_grad=True),))
for step in range(3):
    loss = graphed(torch.randn(64, 1, device="cuda", requires_grad=True)).square().mean()
    loss.backward()
    print(step, loss.item())
