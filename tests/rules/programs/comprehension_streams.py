"""Heads run each on a stream of a list comprehension and are concatenated without a join."""

import torch


class MultiStreamHeads(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.heads = torch.nn.ModuleList(torch.nn.Linear(32, 8) for _ in range(n))
        self.streams = [torch.cuda.Stream() for _ in range(n)]

    def forward(self, x):
        outputs = []
        for head, stream in zip(self.heads, self.streams):
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                outputs.append(head(x))
        return torch.cat(outputs, dim=-1)  # expect-run: SYN101


model = MultiStreamHeads(3).cuda()
with torch.no_grad():
    print(model(torch.rand(4, 32, device="cuda")).sum().item())
