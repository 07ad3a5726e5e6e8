"""One layer used on two streams: the engine adds up gradients of both, and waits."""

import torch

layer = torch.nn.Linear(4, 4).cuda()
x = torch.randn(6, 4, device="cuda")
losses = []
for _ in range(2):
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.default_stream())
    with torch.cuda.stream(stream):
        out = layer(x).sigmoid().sum()
    torch.cuda.default_stream().wait_stream(stream)
    losses.append(out)
(losses[0] + losses[1]).backward()
assert layer.weight.grad.isfinite().all()
