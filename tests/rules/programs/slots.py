"""Two buffers are filled in turn; the consumer does not wait for the event of its buffer."""

import torch

copy = torch.cuda.Stream()
buffers = [torch.zeros(1024, device="cuda") for _ in range(2)]
copied = [torch.cuda.Event() for _ in range(2)]
used = [torch.cuda.Event() for _ in range(2)]
batches = [torch.ones(1024).pin_memory() for _ in range(6)]


def load(number):
    slot = number % 2
    with torch.cuda.stream(copy):
        copy.wait_event(used[slot])
        buffers[slot].copy_(batches[number], non_blocking=True)
        copied[slot].record()


copy.wait_stream(torch.cuda.current_stream())
load(0)
for number in range(5):
    slot = number % 2
    load(number + 1)
    out = buffers[slot] * 2  # expect: SYN101
    used[slot].record()
print(out.sum().item())
