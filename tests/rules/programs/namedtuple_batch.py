"""A named tuple of tensors is copied on a side stream; it is freed while the main stream reads."""

from typing import NamedTuple

import torch


class Batch(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor

    def to(self, device):
        return Batch(*(part.to(device, non_blocking=True) for part in self))


stream = torch.cuda.Stream()


def fetch(host):
    with torch.cuda.stream(stream):
        batch = host.to("cuda")
    torch.cuda.current_stream().wait_stream(stream)
    return batch


hosts = [Batch(torch.rand(64, 8).pin_memory(), torch.rand(64, 1).pin_memory()) for _ in range(4)]
weight = torch.zeros(8, 1, device="cuda")
for host in hosts:
    batch = fetch(host)
    error = batch.x @ weight - batch.y  # expect-run: SYN201
    weight -= 0.01 * batch.x.T @ error
print(weight.sum().item())
