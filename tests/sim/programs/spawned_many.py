"""torch.multiprocessing.spawn, a fork server and a pool: each child sees as many devices."""

import multiprocessing

import torch
import torch.multiprocessing


def check(rank, world):
    torch.cuda.set_device(rank)
    model = torch.nn.Linear(2, 2).to(rank)
    model(torch.ones(1, 2, device=rank)).sum().backward()
    assert torch.cuda.device_count() == 4
    assert world == 2
    assert model.weight.grad.device == torch.device("cuda", rank)


def double(x):
    return (torch.tensor([float(x)]).cuda() * 2).item()


if __name__ == "__main__":
    torch.ones(1, device="cuda").add_(1)
    torch.multiprocessing.spawn(check, args=(2,), nprocs=2)
    with multiprocessing.get_context("forkserver").Pool(1) as pool:
        assert pool.map(double, [1, 2]) == [2, 4]
