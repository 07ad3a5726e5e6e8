"""Clocks that do not measure GPU work: a limit, a heartbeat, the time of launching, that of loading."""

import time

import torch

layer = torch.nn.Linear(8, 8).cuda()
start = last_beat = time.time()
for _ in range(5):
    layer(torch.randn(4, 8, device="cuda")).sum().backward()
    if time.time() - start > 3600:
        break
    if time.time() - last_beat >= 30.0:
        last_beat = time.time()
began = time.perf_counter()
layer(torch.randn(4, 8, device="cuda"))
launch_ms = (time.perf_counter() - began) * 1e3
assert launch_ms > 0
