"""Sparse tensors by rows and by columns, of numbers and of blocks."""

import warnings

import torch

warnings.filterwarnings("ignore", message="Sparse")
d = torch.device("cuda:1")
dense = torch.tensor([[0.0, 2, 0, 0], [3, 0, 0, 0], [0, 0, 0, 4], [0, 0, 5, 0]])
made = torch.sparse_csr_tensor(
    torch.tensor([0, 1, 2]), torch.tensor([1, 0]), torch.tensor([2.0, 3.0]), (2, 2), device=d
)
assert made.device == d
assert made.is_cuda
assert made.layout == torch.sparse_csr
assert made.to_dense().tolist() == [[0, 2], [3, 0]]
assert made.values().device == made.crow_indices().device == d
parts = {"crow_indices": torch.tensor([0, 1, 2]), "col_indices": torch.tensor([1, 0]), "values": torch.ones(2)}
assert torch.sparse_csr_tensor(size=(2, 2), device=d, **parts).device == d
on_gpu = (torch.tensor([0, 1, 2], device=d), torch.tensor([1, 0], device=d), torch.ones(2, device=d))
assert torch.sparse_csc_tensor(*on_gpu, (2, 2)).device == d
assert torch.sparse_compressed_tensor(*on_gpu, (2, 2), layout=torch.sparse_csr).device == d

for layout in (torch.sparse_csr, torch.sparse_csc):
    there = dense.to_sparse(layout=layout).to(d)
    assert there.device == d
    assert there.layout == layout
    assert there.to_dense().tolist() == dense.tolist()
    assert there.cpu().to_dense().tolist() == dense.tolist()
    assert there.clone().device == d
    assert (there * 2).to_dense().sum().item() == 28
    assert there.to(torch.float64).dtype == torch.float64
for layout in (torch.sparse_bsr, torch.sparse_bsc):
    there = dense.to_sparse(layout=layout, blocksize=(2, 2)).cuda(1)
    assert there.layout == layout
    assert there.to_dense().tolist() == dense.tolist()

rows = dense.to(d).to_sparse_csr()
assert rows.device == d
assert (rows @ torch.ones(4, 1, device=d)).flatten().tolist() == [2, 3, 4, 5]
assert (rows @ torch.ones(4, device=d)).tolist() == [2, 3, 4, 5]
assert torch.sparse.mm(rows, torch.eye(4, device=d)).tolist() == dense.tolist()
assert repr(rows).startswith("tensor(crow_indices")
weight = dense.to(d).to_sparse_csr().requires_grad_()
torch.sparse.mm(weight, torch.ones(4, 2, device=d)).sum().backward()
assert weight.grad.layout == torch.sparse_csr
