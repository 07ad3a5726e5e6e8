"""The read stands inside a statement of several lines, before which the wait belongs."""

import torch

side = torch.cuda.Stream()
weight = torch.ones(4, device="cuda")
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    x = weight * 2
loss = torch.where(
    weight > 0,
    x * weight,  # expect-run: SYN101
    0.0,
).sum()
print(loss.item())
