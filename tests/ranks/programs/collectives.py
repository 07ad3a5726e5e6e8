"""Every collective on virtual GPUs, with the right values and without a finding; any number of ranks."""

import warnings

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

warnings.simplefilter("ignore", FutureWarning)
dist.init_process_group("nccl")
rank, size = dist.get_rank(), dist.get_world_size()
torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
assert (dist.get_backend(), dist.is_nccl_available()) == ("nccl", True)
total = sum(range(1, size + 1))


def rank_values():
    return torch.full((4,), rank + 1.0, device="cuda")


def check(tensor, value):
    assert tensor.is_cuda
    assert tensor.sum().item() == 4 * value, (tensor, value)


def wait(work):
    if work is not None:
        work.wait()


for is_async in (False, True):
    x = rank_values()
    wait(dist.all_reduce(x, async_op=is_async))
    check(x, total)
    x = rank_values()
    wait(dist.broadcast(x, size - 1, async_op=is_async))
    check(x, size)
    x = rank_values()
    wait(dist.reduce(x, 0, async_op=is_async))
    if rank == 0:
        check(x, total)
    parts = [torch.empty(4, device="cuda") for _ in range(size)]
    wait(dist.all_gather(parts, rank_values(), async_op=is_async))
    for number, part in enumerate(parts):
        check(part, number + 1)
    whole = torch.empty(4 * size, device="cuda")
    wait(dist.all_gather_into_tensor(whole, rank_values(), async_op=is_async))
    assert whole.sum().item() == 4 * total
    x = torch.empty(4, device="cuda")
    wait(dist.reduce_scatter_tensor(x, torch.ones(4 * size, device="cuda"), async_op=is_async))
    check(x, size)
    wait(dist.reduce_scatter(x, [rank_values() for _ in range(size)], async_op=is_async))
    check(x, total)
    received = torch.empty(4 * size, device="cuda")
    wait(dist.all_to_all_single(received, torch.cat([rank_values()] * size), async_op=is_async))
    assert received.sum().item() == 4 * total
    wait(dist.gather(rank_values(), parts if rank == 0 else None, 0, async_op=is_async))
    wait(dist.scatter(x, parts if rank == 0 else None, 0, async_op=is_async))
    check(x, rank + 1)
dist.barrier()

# point to point, around a ring
if size > 1:
    sent, got = rank_values(), torch.empty(4, device="cuda")
    operations = [dist.P2POp(dist.isend, sent, (rank + 1) % size), dist.P2POp(dist.irecv, got, (rank - 1) % size)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    check(got, (rank - 1) % size + 1)

# handles: asked, waited for on another stream
side, group = torch.cuda.Stream(), dist.new_group(list(range(size)))
assert dist.get_backend(group) == "nccl"
x = rank_values()
work = dist.all_reduce(x, group=group, async_op=True)
while not work.is_completed():
    pass
check(x, total)
x = rank_values()
work = dist.all_reduce(x, group=group, async_op=True)
with torch.cuda.stream(side):
    work.wait()
    y = x * 2
torch.cuda.current_stream().wait_stream(side)
y.record_stream(torch.cuda.current_stream())
check(y, 2 * total)

# functional collectives wait at first use; objects; DTensor
check(functional.all_reduce(rank_values(), "sum", dist.group.WORLD) + 0, total)
objects = [None] * size
dist.all_gather_object(objects, {"rank": rank})
assert [found["rank"] for found in objects] == list(range(size))
mesh = init_device_mesh("cuda", (size,))
sharded = distribute_tensor(torch.arange(8.0, device="cuda"), mesh, [Shard(0)])
assert sharded.redistribute(placements=[Replicate()]).to_local().sum().item() == 28

# frameworks
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(
    torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 2)).cuda()
)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(2, 4, device="cuda")).square().mean().backward()
    optimizer.step()
weight = next(model.parameters()).detach().clone()
dist.all_reduce(weight)
assert torch.allclose(weight, next(model.parameters()) * size, atol=1e-5)

from torch.distributed.fsdp import fully_shard  # noqa: E402  late: it is slow to import

model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 2)).cuda()
for layer in model:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(2):
    model(torch.randn(2, 4, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
x = rank_values()
halved = dist.all_reduce(x, async_op=True).get_future().then(lambda future: future.value()[0] / 2)
check(halved.wait(), total / 2)
check(x, total)
x = rank_values()
dist.all_reduce(x, async_op=True).get_future().wait()
check(x, total)
dist.destroy_process_group()
