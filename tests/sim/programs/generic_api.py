"""torch.Stream, torch.Event, torch.accelerator, device modules and default devices."""

import torch

assert torch.accelerator.is_available()
assert torch.accelerator.current_accelerator() == torch.device("cuda")
assert torch.accelerator.device_count() == 4
assert torch.accelerator.current_device_index() == 0
device = torch.accelerator.current_accelerator()
s = torch.Stream(device="cuda:1")
assert s.device.index == 1
plain = torch.Stream()
assert plain.device == torch.device("cuda:0")
with s:
    assert torch.accelerator.current_stream() == s
    assert torch.accelerator.current_device_index() == 1
    a = torch.ones(4, device="cuda:1") + 1
assert torch.accelerator.current_device_index() == 0
event = torch.Event(device="cuda:1", enable_timing=True)
event.record(s)
later = s.record_event(torch.Event("cuda:1", enable_timing=True))
torch.accelerator.current_stream("cuda:1").wait_event(event)
torch.accelerator.current_stream("cuda:1").wait_stream(s)
assert (a * 2).sum().item() == 16
a.record_stream(s)
later.synchronize()
event.synchronize()
assert event.elapsed_time(later) >= 0
event.wait()
event.wait(s)
assert event.query()
torch.accelerator.synchronize()
torch.accelerator.synchronize("cuda:1")
torch.accelerator.set_device_index(2)
assert torch.cuda.current_device() == 2
torch.accelerator.set_device_index(0)
with torch.accelerator.device_index(3):
    assert torch.ones(1, device="cuda").device.index == 3
torch.accelerator.set_stream(s)
assert torch.accelerator.current_stream() == s
torch.accelerator.set_stream(torch.cuda.default_stream(0))
if hasattr(torch.accelerator, "memory_allocated"):  # since torch 2.9
    assert torch.accelerator.memory_allocated() >= 0
    torch.accelerator.empty_cache()
assert torch.get_device_module("cuda") is torch.cuda
assert torch.get_device_module(torch.device("cuda:1")) is torch.cuda
assert torch.get_device_module() is torch.cuda
assert torch._C._get_accelerator().type == "cuda"

torch.set_default_device("cuda")
try:
    assert torch.ones(2).device == torch.device("cuda:0")
    assert torch.tensor([1.0]).is_cuda
    assert torch.nn.Linear(2, 2).weight.is_cuda
    assert torch.arange(3).is_cuda
    assert torch.randn(2, 2).is_cuda
    assert torch.get_default_device() == torch.device("cuda", 0)
    assert torch.ones(2, device="cpu").device.type == "cpu"
finally:
    torch.set_default_device(None)
assert torch.ones(1).device.type == "cpu"
torch.set_default_device("cuda:2")
assert torch.zeros(2).device.index == 2
assert torch.empty(3).device.index == 2
assert torch.eye(2).device.index == 2
torch.set_default_device("cpu")
with torch.device("cuda:1"):
    assert torch.full((2,), 3.0).device.index == 1
    assert torch.nn.Embedding(3, 3).weight.device.index == 1
    with torch.device("cpu"):
        assert torch.zeros(1).device.type == "cpu"
    assert torch.zeros(1).device.index == 1
    layer = torch.nn.LSTM(3, 3)
    assert layer(torch.randn(2, 3))[0].device.index == 1
assert torch.zeros(1).device.type == "cpu"
with torch.device("meta"):
    assert torch.empty(1).device.type == "meta"
meta = torch.nn.Linear(4, 4, device="meta").to_empty(device="cuda:3")
assert meta.weight.device.index == 3
torch.set_default_dtype(torch.float64)
assert torch.zeros(1, device="cuda").dtype == torch.float64
torch.set_default_dtype(torch.float32)
