"""A spawned child sees as many devices."""

import multiprocessing

import torch


def child(connection, rank):
    torch.cuda.set_device(rank)
    x = torch.ones(3, device="cuda") * rank
    connection.send((torch.cuda.device_count(), str(x.device), x.sum().item(), torch.cuda.get_device_name()))


if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    process = context.Process(target=child, args=(theirs, 2))
    process.start()
    assert mine.recv() == (4, "cuda:2", 6.0, torch.cuda.get_device_name())
    process.join()
    assert process.exitcode == 0
    assert torch.ones(2, device="cuda:3").sum().item() == 2
