"""The tensors of a list are used together and go with it."""

import torch

side = torch.cuda.Stream()
hosts = [torch.rand(64, 64).pin_memory() for _ in range(3)]


def load(host):
    with torch.cuda.stream(side):
        return host.to("cuda", non_blocking=True)


def run():
    batch = [load(host) for host in hosts]
    torch.cuda.current_stream().wait_stream(side)
    return torch.cat(batch)  # expect-run: SYN201


for _ in range(3):
    x = run()
print(x.sum().item())
