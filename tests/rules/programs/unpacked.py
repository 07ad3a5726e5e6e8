"""Three tensors that one line made are used by one operator and go together: each has to be kept."""

import torch

side = torch.cuda.Stream()
hosts = [torch.rand(64, 64).pin_memory() for _ in range(3)]


def load(host):
    with torch.cuda.stream(side):
        return host.to("cuda", non_blocking=True)


def run():
    a, b, c = [load(host) for host in hosts]
    torch.cuda.current_stream().wait_stream(side)
    return torch.addmm(a, b, c)  # expect-run: SYN201


for _ in range(3):
    x = run()
print(x.sum().item())
