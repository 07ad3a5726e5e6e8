"""accelerate's dispatch_model: some layers wait in host memory and come to the GPU for their forward pass."""

import torch
from accelerate import dispatch_model
from torch import nn

layers = [nn.Linear(256, 256) for _ in range(6)]
model = nn.Sequential(*layers)
last = torch.cuda.device_count() - 1
places = {"0": 0, "1": "cpu", "2": 0, "3": "cpu", "4": last, "5": last}
model = dispatch_model(model, device_map=places, main_device=0)
with torch.inference_mode():
    for step in range(4):
        x = torch.randn(32, 256, device="cuda:0")
        print(step, model(x).float().sum().item())
