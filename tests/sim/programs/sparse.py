"""Sparse tensors and sparse gradients."""

import torch
from torch import nn

d = torch.device("cuda:1")
s = torch.sparse_coo_tensor(torch.tensor([[0, 1], [1, 0]]), torch.tensor([2.0, 3.0]), (2, 2), device=d)
assert s.device == d
assert s.is_cuda
assert s.is_sparse
assert s.to_dense().tolist() == [[0, 2], [3, 0]]
assert s.coalesce().indices().device == d
assert s.coalesce().values().tolist() == [2, 3]
assert torch.sparse.mm(s, torch.eye(2, device=d)).tolist() == [[0, 2], [3, 0]]
assert (s + s).to_dense().tolist() == [[0, 4], [6, 0]]
assert (s @ torch.ones(2, device=d)).tolist() == [2, 3]
moved = torch.eye(3).to_sparse().to("cuda:2")
assert moved.device.index == 2
assert moved._nnz() == 3
assert moved.cpu().to_dense().trace().item() == 3
assert torch.eye(2, device=d).to_sparse().device == d
other = torch.sparse_coo_tensor(torch.tensor([[0], [0]], device=d), torch.tensor([1.0], device=d), (2, 2))
assert other.device == d
assert torch.sparse_coo_tensor(size=(2, 2), device=d).device == d
assert s.clone().device == d
assert s.detach().device == d
assert s.t().to_dense().tolist() == [[0, 3], [2, 0]]

table = nn.Embedding(6, 2, sparse=True).to(d)
before = table.weight.detach().clone()
table(torch.tensor([1, 1, 4], device=d)).sum().backward()
grad = table.weight.grad
assert grad.is_sparse
assert grad.device == d
assert grad.coalesce().indices().tolist() == [[1, 4]]
torch.optim.SGD(table.parameters(), lr=1.0).step()
assert (before - table.weight).sum().item() == 6
table.weight.grad = None
weight = torch.eye(2, device=d).to_sparse().requires_grad_()
torch.sparse.mm(weight, torch.ones(2, 2, device=d)).sum().backward()
assert weight.grad is not None

with torch.cuda.stream(torch.cuda.Stream()):  # from here on the streams of nodes are kept
    pass
weight = torch.eye(2, device=d).to_sparse().requires_grad_()
torch.sparse.mm(weight, torch.ones(2, 2, device=d)).sum().backward()
assert weight.grad is not None
