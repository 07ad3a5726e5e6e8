"""Weights are averaged on a stream of their own beside the next forward pass, and the optimizer does not wait for it."""

import copy

import torch

model = torch.nn.Linear(20, 5).cuda()
average = copy.deepcopy(model).requires_grad_(requires_grad=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, foreach=False)
side = torch.cuda.Stream()
averaged = None  # before the first step, there is nothing to wait for
for _ in range(3):
    loss = model(torch.ones(4, 20, device="cuda")).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()  # expect-run: SYN102
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), torch.no_grad():
        for mean, weight in zip(average.parameters(), model.parameters(), strict=True):
            mean.lerp_(weight, 0.1)
        averaged = side.record_event()
torch.cuda.current_stream().wait_stream(side)
print(sum(mean.sum().item() for mean in average.parameters()))
