"""Well-ordered streams: prefetching, double buffering, pinned copies out, peer copies on side streams."""

import torch
from torch import nn

torch.manual_seed(0)


class Prefetcher:
    def __init__(self, batches, device):
        self.batches, self.device = iter(batches), device
        self.stream = torch.cuda.Stream(device)
        self.preload()

    def preload(self):
        try:
            batch = next(self.batches)
        except StopIteration:
            self.next = None
            return
        with torch.cuda.stream(self.stream):
            self.next = batch.to(self.device, non_blocking=True)

    def __iter__(self):
        while self.next is not None:
            current = torch.cuda.current_stream(self.device)
            current.wait_stream(self.stream)
            batch = self.next
            batch.record_stream(current)
            self.preload()
            yield batch


model = nn.Linear(4, 4).cuda()
optimizer = torch.optim.Adam(model.parameters())
for batch in Prefetcher([torch.randn(8, 4).pin_memory() for _ in range(5)], "cuda:0"):
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()

# results out, on a side stream
out_stream = torch.cuda.Stream()
host = [torch.empty(4, pin_memory=True) for _ in range(2)]
events = [torch.cuda.Event() for _ in range(2)]
for step in range(4):
    slot = step % 2
    if step >= 2:
        events[slot].synchronize()
        assert host[slot][0].item() == step - 2
    result = torch.full((4,), float(step), device="cuda")
    out_stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(out_stream):
        host[slot].copy_(result, non_blocking=True)
        result.record_stream(out_stream)
        events[slot].record()
torch.cuda.synchronize()

# a pipeline over two devices, on side streams of both
sides = [torch.cuda.Stream(i) for i in range(2)]
x = torch.randn(4, device="cuda:0")
sides[0].wait_stream(torch.cuda.current_stream(0))
with torch.cuda.stream(sides[0]), torch.cuda.stream(sides[1]):
    y = (x * 2).to("cuda:1", non_blocking=True) + 1
torch.cuda.current_stream(1).wait_stream(sides[1])
y.record_stream(torch.cuda.current_stream(1))
assert torch.allclose(y.cpu(), x.cpu() * 2 + 1)

# forward on two streams, backward follows them
left, right = nn.Linear(4, 4).cuda(), nn.Linear(4, 4).cuda()
given = torch.randn(3, 4, device="cuda")
streams = torch.cuda.Stream(), torch.cuda.Stream()
parts = []
for stream, layer in zip(streams, (left, right), strict=True):
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        parts.append(layer(given))
for stream, part in zip(streams, parts, strict=True):
    torch.cuda.current_stream().wait_stream(stream)
    part.record_stream(torch.cuda.current_stream())
(parts[0] + parts[1]).sum().backward()
with torch.no_grad():
    for p in (*left.parameters(), *right.parameters()):
        p.sub_(0.1 * p.grad)
