"""Collectives look at the number of elements: stacked, flat, a scalar; and take types that gloo does not."""

import warnings

import torch
import torch.distributed as dist

warnings.simplefilter("ignore", FutureWarning)  # newer names exist
dist.init_process_group("nccl")
rank, size = dist.get_rank(), dist.get_world_size()
torch.cuda.set_device(rank)
x = torch.full((2, 3), float(rank), device="cuda")
expected = torch.arange(size, dtype=torch.float32).repeat_interleave(6)

for shape in ((size, 2, 3), (size * 6,), (size * 2, 3)):
    gathered = torch.empty(shape, device="cuda")
    dist.all_gather_into_tensor(gathered, x)
    assert torch.equal(gathered.flatten().cpu(), expected)
    work = dist.all_gather_into_tensor(gathered.zero_(), x, async_op=True)
    work.wait()
    assert torch.equal(gathered.flatten().cpu(), expected)
    for part in (torch.empty(2, 3, device="cuda"), torch.empty(6, device="cuda")):
        dist.reduce_scatter_tensor(part, torch.ones(shape, device="cuda"))
        assert part.flatten().tolist() == [size] * 6

counts = torch.tensor([3 * rank, -3 * rank, 4], device="cuda")
dist.all_reduce(counts, op=dist.ReduceOp.AVG)  # of integers it is rounded toward zero
assert counts.tolist() == [1, -1, 4], counts
part = torch.zeros(1, dtype=torch.int64, device="cuda")
work = dist.reduce_scatter_tensor(
    part, torch.full((size,), 3 * rank, device="cuda"), op=dist.ReduceOp.AVG, async_op=True
)
work.wait()
assert part.tolist() == [1]

small = torch.full((2,), rank + 1.0, device="cuda").to(torch.float8_e4m3fn)  # gloo does not know this type
every = torch.empty(2 * size, dtype=torch.float8_e4m3fn, device="cuda")
dist.all_gather_into_tensor(every, small)
assert every.float().tolist() == [1, 1, 2, 2]
work = dist.broadcast(small, 0, async_op=True)
work.wait()
assert small.float().tolist() == [1, 1]

scalars = torch.empty(size, device="cuda")
dist.all_gather_into_tensor(scalars, torch.tensor(float(rank), device="cuda"))
assert scalars.tolist() == list(range(size))

gathered = [torch.empty(size, 2, 3, device="cuda") for _ in range(2)]
with dist._coalescing_manager(async_ops=True) as coalesced:
    for output in gathered:
        dist.all_gather_into_tensor(output, x)
coalesced.wait()
assert all(torch.equal(output.flatten().cpu(), expected) for output in gathered)

errors = []
for output, given in ((torch.empty(5, device="cuda"), x), (torch.empty(3, 2 * size, device="cuda").t(), x)):
    try:
        dist.all_gather_into_tensor(output, given)
    except ValueError as error:
        errors.append(str(error))
assert errors[0] == "output tensor size must be equal to world_size times input tensor size"
assert errors[1] == "Tensors must be contiguous"
dist.destroy_process_group()
