"""Collectives and messages at random, on groups and streams at random, each waited for at some later time."""

import random
import sys

import torch
import torch.distributed as dist

dist.init_process_group("nccl")
rank, size = dist.get_rank(), dist.get_world_size()
torch.cuda.set_device(rank % torch.cuda.device_count())
shared = random.Random(int(sys.argv[1]))  # the same choices in each rank
own = random.Random(1000 * int(sys.argv[1]) + rank)
members = [list(range(size)), [0, 1], list(range(0, size, 2)), list(range(size - 1))]
groups = [dist.new_group(ranks) for ranks in members]
streams = [torch.cuda.current_stream(), torch.cuda.Stream(), torch.cuda.Stream()]
started = []  # (result, handles, another tensor that is in use until they are waited for)
kept = []  # so that no memory is reused
total = torch.zeros(4, device="cuda", dtype=torch.float64)


def full(value, parts=1):
    return torch.full((4 * parts,), float(value), device="cuda")


def collective(kind, value, ranks, group):
    given, parts = full(value), len(ranks)
    if kind == "reduce":
        return given, [dist.all_reduce(given, group=group, async_op=True)], given
    if kind == "broadcast":
        return given, [dist.broadcast(given, ranks[0], group=group, async_op=True)], given
    if kind == "in order":
        dist.all_reduce(given, group=group)
        return given, [], given
    result = full(0, parts)
    if kind == "gather":
        return result, [dist.all_gather(list(result.chunk(parts)), given, group=group, async_op=True)], given
    return given, [dist.reduce_scatter(given, list(result.chunk(parts)), group=group, async_op=True)], result


def message(value):
    sender, receiver = shared.sample(range(size), 2)
    tensor = full(value if rank == sender else 0)
    if rank == sender:
        started.append((tensor, [dist.isend(tensor, receiver)], tensor))
    elif rank == receiver:
        started.append((tensor, [dist.irecv(tensor, sender)], tensor))


def ring(value):
    given, result = full(value), full(0)
    pairs = [(dist.irecv, result, (rank - 1) % size), (dist.isend, given, (rank + 1) % size)]
    started.append((result, dist.batch_isend_irecv([dist.P2POp(*pair) for pair in pairs]), given))


def wait_for_some(n_left):
    while len(started) > n_left:
        result, handles, *others = started.pop(own.randrange(len(started)))
        side = own.choice(streams)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for handle in handles:
                handle.wait()
            part = result.double().sum()
        torch.cuda.current_stream().wait_stream(side)
        kept.append((part, result, *others))
        total.add_(part).remainder_(1e6)


for step in range(20):
    which, kind = shared.randrange(len(groups)), shared.choice(["reduce", "broadcast", "in order", "gather", "scatter"])
    way = shared.choice(["message", "ring", "collective", "collective"])
    if way == "message":
        message(rank + step)
    elif way == "ring":
        ring(rank * step)
    elif rank in members[which]:
        side = own.choice(streams)
        with torch.cuda.stream(side):
            started.append(collective(kind, rank + step, members[which], groups[which]))
        torch.cuda.current_stream().wait_stream(side)
    wait_for_some(own.randrange(6))
    if not own.randrange(6):
        total.sum().item()  # the host waits
wait_for_some(0)
sys.stdout.write(f"{total.tolist()}\n")
dist.destroy_process_group()
