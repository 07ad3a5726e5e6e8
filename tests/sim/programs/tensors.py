"""Making, converting, indexing and viewing tensors."""

import warnings

import numpy
import torch

warnings.simplefilter("ignore")
d = torch.device("cuda:1")
for made in (
    torch.zeros(2, device=d),
    torch.ones(2, device="cuda:1"),
    torch.full((2,), 1, device=1),
    torch.empty(2, device=d),
    torch.arange(2, device=d),
    torch.linspace(0, 1, 2, device=d),
    torch.eye(2, device=d),
    torch.tensor([1, 2], device=d),
    torch.as_tensor([1, 2], device=d),
    torch.asarray([1, 2], device=d),
    torch.as_tensor(numpy.ones(2), device=d),
    torch.from_numpy(numpy.ones(2)).cuda(1),
    torch.tril_indices(2, 2, device=d),
    torch.logspace(0, 1, 2, device=d),
    torch.hann_window(4, device=d),
    torch.empty_strided((2,), (1,), device=d),
    torch.randperm(3, device=d),
    torch.zeros(2).to(d),
    torch.zeros(2).cuda(d),
    torch.zeros(2).to(device=d),
    torch.zeros(2).to("cuda:1", torch.half),
    torch.zeros(2).to(torch.zeros(1, device=d)),
    torch.scalar_tensor(1.0, device=d),
    torch.complex(torch.ones(2, device=d), torch.ones(2, device=d)),
    torch.zeros_like(torch.ones(2), device=d),
    torch.ones(2, device=d).new_zeros(3),
    torch.ones(2).new_ones(3, device=d),
    torch.ones(2, device=d).new_tensor([1, 2]),
    torch.ones(2, device=d).new_empty(2),
    torch.ones(2, device=d).new_full((2,), 3.0),
    torch.vander(torch.ones(2, device=d)),
    torch.cartesian_prod(torch.ones(2, device=d)),
    torch.block_diag(torch.ones(2, 2, device=d)),
    torch.empty_like(torch.ones(2, device=d)),
    torch.rand_like(torch.ones(2, device=d)),
    torch.normal(0.0, 1.0, (2,), device=d),
    torch.normal(torch.ones(2, device=d), 1.0),
    torch.poisson(torch.ones(2, device=d)),
    torch.frombuffer(bytearray(8), dtype=torch.float32).to(d),
    torch.stack([torch.ones(1, device=d)] * 2),
    torch.cat([torch.ones(1, device=d)] * 2),
    torch.where(torch.ones(2, device=d) > 0, 1.0, 2.0),
):
    assert made.device == d, made
    assert made.is_cuda
    assert not made.is_cpu
    assert made.get_device() == 1
assert torch.zeros_like(torch.ones(2, device=d), device="cpu").device.type == "cpu"
assert torch.ones(2, device=d).new_zeros(2, device="cpu").device.type == "cpu"
assert torch.tensor(torch.ones(2, device=d)).device == d
assert torch.tensor([torch.tensor(1.0, device=d), 2.0]).device.type == "cpu"
assert torch.as_tensor(made) is made
assert torch.as_tensor(made, device="cuda:2").device.index == 2
assert made.to(d) is made
assert made.cuda(1) is made
assert made.to(d, copy=True) is not made
assert made.to("cpu").device.type == "cpu"
assert made.cpu().get_device() == -1

# types
f = torch.cuda.FloatTensor([1.0, 2.0])
assert f.is_cuda
assert f.type() == "torch.cuda.FloatTensor"
assert isinstance(f, torch.cuda.FloatTensor)
assert not isinstance(torch.ones(2), torch.cuda.FloatTensor)
assert not isinstance(f, torch.FloatTensor)
assert isinstance(torch.ones(2), torch.FloatTensor)
assert not isinstance(f, torch.cuda.LongTensor)
assert torch.cuda.LongTensor(3).shape == (3,)
assert torch.cuda.ByteTensor([1]).dtype == torch.uint8
assert f.type("torch.cuda.DoubleTensor").dtype == torch.float64
assert f.type(torch.cuda.HalfTensor).dtype == torch.float16
assert f.type("torch.FloatTensor").device.type == "cpu"
assert torch.ones(2).type(torch.cuda.FloatTensor).is_cuda
assert f.type(torch.float64).is_cuda
assert f.type_as(torch.ones(1, dtype=torch.int, device=d)).dtype == torch.int
assert torch.ones(1).type_as(torch.ones(1, device=d)).device == d
assert torch.is_tensor(f)
assert f.half().is_cuda
assert f.long().is_cuda
assert str(f.dtype) == "torch.float32"
assert f.storage().is_cuda
assert f.untyped_storage().device == torch.device("cuda:0")

# values go to the host
t = torch.arange(6.0, device=d).reshape(2, 3)
assert t.tolist() == [[0, 1, 2], [3, 4, 5]]
assert t[1, 2].item() == 5
assert float(t[0, 1]) == 1
assert int(t.sum()) == 15
assert bool(t.any())
assert "cuda:1" in repr(t)
assert f"{t.max():.1f}" == "5.0"
assert t.cpu().numpy().sum() == 15
assert numpy.asarray(t.cpu()).shape == (2, 3)
for wrong in (t.numpy, lambda: numpy.asarray(t)):
    text = ""
    try:
        wrong()
    except TypeError as error:
        text = str(error)
    assert "can't convert cuda:1 device type tensor to numpy" in text
assert len(t) == 2
assert [row.sum().item() for row in t] == [3, 12]
assert 5 in t
assert t.numpy(force=True).shape == (2, 3)

# indexing
mask = t > 2
assert t[mask].tolist() == [3, 4, 5]
assert t[mask].device == d
assert t[torch.tensor([1])].tolist() == [[3, 4, 5]]
assert t[torch.tensor([True, False])].tolist() == [[0, 1, 2]]
assert t[[0, 1], [1, 2]].tolist() == [1, 5]
t[t == 0] = 7
t[torch.tensor([0]), 1] = torch.tensor(8.0)
t[1, torch.tensor([0, 2], device=d)] = torch.tensor([9.0, 9.0], device=d)
assert t.tolist() == [[7, 8, 2], [9, 4, 9]]
t[0] = torch.tensor([1.0, 2.0, 3.0], device=d)
t[:, 1:] += 1
assert t.nonzero().shape == (6, 2)
assert torch.masked_select(t, t > 8).tolist() == [9, 10]
assert t.index_select(1, torch.tensor([2], device=d)).tolist() == [[4], [10]]
t.masked_fill_(t > 8, 0.0)
t.scatter_(1, torch.zeros(2, 1, dtype=torch.long, device=d), 5.0)
t.index_add_(0, torch.tensor([0], device=d), torch.ones(1, 3, device=d))
assert t.gather(1, torch.tensor([[0], [0]], device=d)).tolist() == [[6], [5]]
assert t.topk(2).values.device == d
assert t.sort().indices.device == d
values, counts = torch.unique(torch.tensor([1, 1, 2], device=d), return_counts=True)
assert counts.tolist() == [2, 1]
assert t.unbind()[0].device == d

# writing in place and into given tensors
out = torch.empty(2, device=d)
torch.add(torch.ones(2, device=d), torch.ones(2, device=d), out=out)
assert out.tolist() == [2, 2]
torch.cat([torch.ones(1, device=d), torch.ones(1, device=d)], out=out)
out.mul_(3).add_(torch.tensor(1.0))  # a scalar tensor may be on the CPU
assert out.tolist() == [4, 4]
out.copy_(torch.tensor([5.0, 6.0]))
out.clamp_(max=5.5).zero_().fill_(2)
out.data = torch.tensor([1.0, 2.0, 3.0], device="cuda:2")
assert out.device.index == 2
assert out.shape == (3,)
p = torch.nn.Parameter(torch.zeros(2))
p.data = p.data.cuda(3)
assert p.device.index == 3
p.data.copy_(torch.ones(2))
assert p.sum().item() == 2
s = torch.ones(4, device=d)
s.untyped_storage().resize_(0)
assert s.untyped_storage().nbytes() == 0
s.untyped_storage().resize_(16)
s.fill_(1)
assert s.sum().item() == 4
s.resize_(2, 4)
assert s.device == d
torch.mm(torch.eye(2, device=d), torch.eye(2, device=d), out=torch.empty(2, 2, device=d))

# pinned memory
h = torch.ones(4).pin_memory()
assert h.is_pinned()
assert h.device.type == "cpu"
assert torch.empty(4, pin_memory=True).is_pinned()
assert torch.zeros(4, pin_memory=True).is_pinned()
assert torch.ones(2, dtype=torch.half, pin_memory=True).is_pinned()
assert torch.tensor([1.0], pin_memory=True).is_pinned()
assert torch.randn(3, pin_memory=True).is_pinned()
assert not torch.ones(4).is_pinned()
assert h[1:].is_pinned()
g = h.to(d, non_blocking=True)
back = torch.empty(4, pin_memory=True)
back.copy_(g, non_blocking=True)
torch.cuda.synchronize(d)
assert back.tolist() == [1, 1, 1, 1]
e = g.to("cpu", non_blocking=True)
torch.cuda.synchronize(d)
assert e.sum().item() == 4

# complex, linear algebra, FFT, einsum
z = torch.view_as_complex(torch.ones(3, 2, device=d))
assert z.abs().device == d
assert z.conj().resolve_conj().imag.tolist() == [-1, -1, -1]
assert torch.fft.ifft(torch.fft.fft(z)).device == d
window = torch.hann_window(16, device=d)
assert torch.stft(torch.randn(64, device=d), 16, window=window, return_complex=True).device == d
m = torch.randn(3, 3, device=d, dtype=torch.float64)
spd = m @ m.T + torch.eye(3, device=d)
assert torch.allclose(torch.linalg.inv(spd) @ spd, torch.eye(3, device=d, dtype=torch.float64))
for parts in (torch.linalg.svd(spd), torch.linalg.qr(spd), torch.linalg.eigh(spd), torch.linalg.eig(spd)):
    assert all(part.device == d for part in parts)
assert torch.linalg.cholesky(spd).device == d
assert torch.linalg.solve(spd, torch.ones(3, device=d, dtype=torch.float64)).device == d
assert torch.einsum("ij,jk->ik", m, m).device == d
assert torch.allclose(torch.det(spd), torch.linalg.det(spd))
assert torch.cdist(m, m).device == d
assert torch.histc(m, 4).device == d
assert torch.bucketize(m, torch.tensor([0.0], device=d)).device == d
assert torch.equal(m, m.clone())
assert torch.ones(2, device=d).equal(torch.ones(2, device=d))
torch.testing.assert_close(m, m.clone())
assert torch.iinfo(torch.int32).max > 0
assert (2 * torch.ones(2, device=d) ** 2 / 4 - 1).tolist() == [-0.5, -0.5]
assert (torch.tensor(2.0) * torch.ones(2, device=d)).device == d
assert torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8).is_quantized
nested = torch.ones(2, device=d).expand(3, 2).t().contiguous().view(-1).unfold(0, 2, 1)
assert nested.device == d
assert torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(torch.ones(2))).tolist() == [1, 1]
