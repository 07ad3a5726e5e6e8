"""Forked children that stay on the CPU, and what CUDA says in those that do not."""

import multiprocessing
import os
import subprocess
import sys

import torch


def on_cpu(connection):
    connection.send((torch.ones(3) * 2).sum().item())


def on_gpu(connection):
    try:
        torch.cuda.set_device(0)
        torch.ones(1, device="cuda")
        connection.send("no error")
    except RuntimeError as error:
        connection.send(str(error))


x = torch.ones(4, device="cuda") * 3
context = multiprocessing.get_context("fork")
for target, expected in ((on_cpu, 6.0), (on_gpu, "Cannot re-initialize CUDA in forked subprocess")):
    mine, theirs = context.Pipe()
    child = context.Process(target=target, args=(theirs,))
    child.start()
    answer = mine.recv()
    child.join()
    assert child.exitcode == 0
    assert answer == expected or str(answer).startswith(str(expected)), answer
with context.Pool(2) as pool:
    assert pool.map(abs, [-1, 2]) == [1, 2]
shared = torch.ones(3).share_memory_()
assert shared.is_shared()
pid = os.fork()
if pid == 0:
    os._exit(0 if (torch.zeros(2) + 1).sum().item() == 2 else 1)
assert os.waitpid(pid, 0)[1] == 0
assert subprocess.run([sys.executable, "-c", "print(1)"], capture_output=True, check=True).stdout == b"1\n"
assert x.sum().item() == 12
