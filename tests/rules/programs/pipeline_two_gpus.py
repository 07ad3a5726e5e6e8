"""A pipeline on two GPUs: the second stage begins before the activation has been copied."""
# devices: 2

import torch


class Stage(torch.nn.Module):
    def __init__(self, device):
        super().__init__()
        self.device = device
        self.layer = torch.nn.Linear(32, 32).to(device)
        self.stream = torch.cuda.Stream(device)
        self.stream.wait_stream(torch.cuda.current_stream(device))

    def forward(self, x):
        with torch.cuda.stream(self.stream):
            return self.layer(x).relu()  # expect-run: SYN101, SYN201


stages = [Stage(torch.device("cuda", index)) for index in range(2)]
micro_batches = [torch.rand(8, 32).cuda(0) for _ in range(3)]
stages[0].stream.wait_stream(torch.cuda.current_stream(0))
with torch.no_grad():
    outputs = []
    for batch in micro_batches:
        hidden = stages[0](batch)
        received = torch.empty(8, 32, device="cuda:1")
        received.copy_(hidden, non_blocking=True)  # expect-run: SYN101, SYN201
        outputs.append(stages[1](received))
torch.cuda.synchronize(0)
torch.cuda.synchronize(1)
print(torch.stack(outputs).sum().item())
