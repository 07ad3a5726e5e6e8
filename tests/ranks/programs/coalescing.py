"""Coalesced collectives and messages: what starts together is waited for as a whole."""

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _coalescing_manager

dist.init_process_group("nccl")
rank, size = dist.get_rank(), dist.get_world_size()
torch.cuda.set_device(rank % torch.cuda.device_count())
device = torch.device("cuda", torch.cuda.current_device())


def rank_values(value=None):
    return torch.full((4,), rank + 1.0 if value is None else value, device=device)


total = float(sum(range(1, size + 1)))
for is_async in (False, True):
    xs = [rank_values(), rank_values()]
    with _coalescing_manager(device=device, async_ops=is_async) as coalesced:
        for x in xs:
            dist.all_reduce(x)
    if is_async:
        coalesced.wait()
    assert [x.sum().item() for x in xs] == [4 * total] * 2
    outs = [torch.empty(4 * size, device=device) for _ in range(2)]
    with _coalescing_manager(device=device, async_ops=is_async) as coalesced:
        for out in outs:
            dist.all_gather_into_tensor(out, rank_values())
    if is_async:
        coalesced.wait()
    assert [out.sum().item() for out in outs] == [4 * total] * 2
    outs = [torch.empty(4, device=device) for _ in range(2)]
    with _coalescing_manager(device=device, async_ops=is_async) as coalesced:
        for out in outs:
            dist.reduce_scatter_tensor(out, torch.ones(4 * size, device=device))
    if is_async:
        coalesced.wait()
    assert [out.sum().item() for out in outs] == [4.0 * size] * 2
with _coalescing_manager(async_ops=True) as coalesced:  # without a device
    x = rank_values()
    dist.all_reduce(x)
coalesced.wait()
assert x.sum().item() == 4 * total

theirs = torch.empty(4, device=device)
mine = rank_values()
with _coalescing_manager(device=device, async_ops=True) as coalesced:
    dist.isend(mine, (rank + 1) % size)
    dist.irecv(theirs, (rank - 1) % size)
coalesced.wait()
assert theirs.sum().item() == 4 * ((rank - 1) % size + 1)
dist.destroy_process_group()
