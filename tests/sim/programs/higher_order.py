"""Operators that are made of others: conditionals and flex_attention; and one_hot, which looks at no value."""

import torch
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.functional import one_hot

x = torch.randn(8, device="cuda")
y = torch.cond(x.sum() > 0, lambda t: t + 1, lambda t: t - 1, (x,))
assert y.is_cuda
assert torch.equal(y.cpu(), x.cpu() + (1 if x.sum() > 0 else -1))

n, z = while_loop(lambda n, z: n < 3, lambda n, z: (n + 1, z * 2), (torch.zeros((), device="cuda"), x))
assert torch.equal(z.cpu(), x.cpu() * 8)
kept = torch.empty(8, pin_memory=True)
kept.copy_(z, non_blocking=True)
torch.cond(z.sum() > 0, lambda t: t + 1, lambda t: t - 1, (z,))
assert torch.equal(kept, z.cpu())  # the host has read the condition after the copy

q, k, v = (torch.randn(1, 2, 128, 16, device="cuda", requires_grad=True) for _ in range(3))
attended = flex_attention(q, k, v, score_mod=lambda score, batch, head, i, j: torch.where(i >= j, score, -1e9))
expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
assert attended.is_cuda
torch.testing.assert_close(attended, expected)
attended.sum().backward()
assert q.grad.is_cuda

ids = torch.tensor([[0, 1], [2, 0]], device="cuda")
assert one_hot(ids).shape == (2, 2, 3)
side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    one_hot(ids, 5)
torch.cuda.current_stream().wait_stream(side)
with torch.cuda.graph(graph):
    hot = one_hot(ids, 5)
graph.replay()
assert hot.argmax(dim=-1).tolist() == [[0, 1], [2, 0]]
