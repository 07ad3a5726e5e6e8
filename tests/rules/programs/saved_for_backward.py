"""The backward pass is the last use of a tensor that has no name any more."""

import torch

side = torch.cuda.Stream()
weight = torch.randn(64, 64, device="cuda", requires_grad=True)
torch.cuda.synchronize()


def forward():
    with torch.cuda.stream(side):
        noise = torch.randn(64, 64, device="cuda")
    torch.cuda.current_stream().wait_stream(side)
    return (noise @ weight).sum()


for _ in range(3):
    loss = forward()
    loss.backward()  # expect-run: SYN201
torch.cuda.synchronize()
