"""Replicas compute on side streams of each GPU; the gather does not wait for them."""
# devices: 2

import torch

devices = [torch.device("cuda", index) for index in range(2)]
streams = {device: torch.cuda.Stream(device) for device in devices}
weights = {device: torch.rand(32, 32, device=device) for device in devices}
for device in devices:
    torch.cuda.synchronize(device)

outputs = []
for device in devices:
    with torch.cuda.stream(streams[device]):
        outputs.append(weights[device] @ weights[device])
totals = []
for device, output in zip(devices, outputs):
    with torch.cuda.device(device):
        totals.append(output.sum())  # expect-run: SYN101
for device in devices:
    torch.cuda.synchronize(device)
print(sum(total.item() for total in totals))
