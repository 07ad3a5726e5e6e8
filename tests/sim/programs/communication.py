"""torch.cuda.comm."""

import torch
from torch.cuda import comm

x = torch.arange(12.0).reshape(6, 2)
parts = comm.broadcast(x.cuda(), [0, 1, 3])
assert [p.device.index for p in parts] == [0, 1, 3]
assert all(torch.equal(p.cpu(), x) for p in parts)
outs = [torch.empty(6, 2, device=f"cuda:{i}") for i in (1, 2)]
comm.broadcast(x.cuda(), out=outs)
assert all(torch.equal(o.cpu(), x) for o in outs)
pieces = comm.scatter(x.cuda(), [0, 1, 2])
assert [tuple(p.shape) for p in pieces] == [(2, 2)] * 3
pieces = comm.scatter(x, [0, 1], chunk_sizes=[4, 2])
assert [p.size(0) for p in pieces] == [4, 2]
streams = [torch.cuda.Stream(i) for i in (0, 1)]
pieces = comm.scatter(x, [0, 1], streams=streams)
for piece, stream in zip(pieces, streams, strict=True):
    torch.cuda.current_stream(piece.device).wait_stream(stream)
    piece.record_stream(torch.cuda.current_stream(piece.device))
back = comm.gather(pieces, destination=2)
assert back.device.index == 2
assert torch.equal(back.cpu(), x)
assert torch.equal(comm.gather(pieces, destination="cpu"), x)
target = torch.empty(6, 2, device="cuda:3")
comm.gather(pieces, out=target)
assert torch.equal(target.cpu(), x)
total = comm.reduce_add([torch.full((3,), float(i), device=f"cuda:{i}") for i in range(4)], destination=1)
assert total.device.index == 1
assert total.tolist() == [6.0] * 3
lists = comm.broadcast_coalesced([torch.ones(2, device="cuda"), torch.arange(3, device="cuda")], [0, 1])
assert [t.device.index for t in lists[1]] == [1, 1]
sums = comm.reduce_add_coalesced(lists, destination=0)
assert sums[1].tolist() == [0, 2, 4]
assert sums[0].tolist() == [2, 2]
sparse = [torch.eye(2).to_sparse().to(f"cuda:{i}") for i in range(2)]
assert comm.reduce_add(sparse, destination=0).to_dense().tolist() == [[2, 0], [0, 2]]
from torch.nn.parallel import gather, parallel_apply, replicate, scatter  # noqa: E402

layer = torch.nn.Linear(2, 2).cuda()
inputs = scatter(x.cuda(), [0, 1])
replicas = replicate(layer, [0, 1])
outputs = parallel_apply(replicas, [(i,) for i in inputs])
assert gather(outputs, 0).shape == (6, 2)
