"""A hook is a lambda, which runs long after the line that makes it: the wait belongs before the backward pass."""

import torch

side = torch.cuda.Stream()
x = torch.ones(6, 6, device="cuda", requires_grad=True)
total = torch.zeros(6, 6, device="cuda")
side.wait_stream(torch.cuda.current_stream())
y = (x @ x).exp()
y.register_hook(lambda grad: total.add_(grad).mul(0))  # expect-run: SYN103
with torch.cuda.stream(side):
    total.fill_(1)
y.mean().backward()
torch.cuda.synchronize()
print(total.sum().item())
