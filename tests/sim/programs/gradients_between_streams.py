"""Part of the forward pass on a side stream: torch protects the gradients that cross between the streams."""

import torch

for device in (0, 1):
    first, last = torch.nn.Linear(8, 8).to(0), torch.nn.Linear(8, 1).to(device)
    side, main = torch.cuda.Stream(device), torch.cuda.current_stream(device)
    for _ in range(3):
        with torch.cuda.stream(side):
            offset = torch.randn(4, 8, device=device)
        hidden = first(torch.randn(4, 8, device=0)).relu().to(device)
        side.wait_stream(main)
        with torch.cuda.stream(side):
            y = last(hidden + offset)
        hidden.record_stream(side)
        main.wait_stream(side)
        y.record_stream(main)
        y.to(0).mean().backward()
    torch.cuda.synchronize(0)
    torch.cuda.synchronize(device)
