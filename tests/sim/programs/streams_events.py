"""torch.cuda's streams, events and devices."""

import torch

assert torch.cuda.is_available()
assert torch.cuda.device_count() == 4
assert torch.cuda.current_device() == 0
torch.cuda.init()
assert torch.cuda.is_initialized()

s = torch.cuda.Stream()
t = torch.cuda.Stream(device="cuda:1", priority=-1)
assert s.device == torch.device("cuda:0")
assert t.device.index == t.device_index == 1
assert t.priority == -1
assert s.priority == 0
least, greatest = torch.cuda.Stream.priority_range()
assert greatest < least <= 0 or least == 0
assert s != torch.cuda.default_stream()
assert torch.cuda.current_stream() == torch.cuda.default_stream()
assert torch.cuda.default_stream().cuda_stream == 0
assert torch.cuda.default_stream(1) != torch.cuda.default_stream(0)
assert isinstance(s, torch.cuda.Stream)
assert isinstance(s, torch.Stream)
assert len({s, torch.cuda.ExternalStream(s.cuda_stream)}) == 1
assert torch.cuda.ExternalStream(s.cuda_stream, device=0) == s
assert torch.cuda.get_stream_from_external(s.cuda_stream) == s
assert torch.cuda.Stream(stream_id=s.stream_id, device_index=0, device_type=1) == s
assert "cuda" in repr(s).lower()

x = torch.ones(8, device="cuda")
s.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(s):
    assert torch.cuda.current_stream() == s
    y = x * 2
    y.record_stream(torch.cuda.default_stream())
done = s.record_event()
torch.cuda.current_stream().wait_event(done)
assert (x + y).sum().item() == 24
x.record_stream(s)
done.synchronize()
assert done.query()
assert s.query()

with s:
    assert torch.cuda.current_stream() == s
with torch.cuda.stream(None):
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
with torch.cuda.stream(t):
    assert torch.cuda.current_device() == 1
assert torch.cuda.current_device() == 0

start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
start.record()
z = x @ x
torch.cuda._sleep(1000)
end.record()
torch.cuda.synchronize()
assert start.elapsed_time(end) >= 0
assert end.device == torch.device("cuda:0")

torch.cuda.set_device(2)
assert torch.cuda.current_device() == 2
assert torch.ones(1, device="cuda").device.index == 2
torch.cuda.set_device("cuda:0")
with torch.cuda.device(3):
    assert torch.ones(1).cuda().device.index == 3
    with torch.cuda.device(torch.device("cuda:1")):
        assert torch.cuda.current_device() == 1
with torch.cuda.device_of(torch.ones(1, device="cuda:2")):
    assert torch.cuda.current_device() == 2
with torch.cuda.device_of(torch.ones(1)):
    assert torch.cuda.current_device() == 0
torch.cuda.set_stream(s)
assert torch.cuda.current_stream() == s
torch.cuda.set_stream(torch.cuda.default_stream())
torch.cuda.synchronize(1)
torch.cuda.synchronize("cuda:2")
torch.cuda.synchronize(torch.device("cuda:3"))

properties = torch.cuda.get_device_properties(1)
assert properties.total_memory > 0
assert properties.multi_processor_count > 0
assert (properties.major, properties.minor) == torch.cuda.get_device_capability(1)
assert properties.name == torch.cuda.get_device_name(1)
assert torch.cuda.can_device_access_peer(0, 1)
free, total = torch.cuda.mem_get_info()
assert 0 < free <= total
torch.cuda.empty_cache()
before = torch.cuda.memory_allocated()
block = torch.empty(1 << 20, device="cuda")
assert torch.cuda.memory_allocated() - before >= 4 << 20
assert torch.cuda.max_memory_allocated() >= torch.cuda.memory_allocated()
del block
assert torch.cuda.memory_allocated() == before
torch.cuda.reset_peak_memory_stats()
assert torch.cuda.max_memory_allocated() == before
assert "allocated_bytes.all.current" in torch.cuda.memory_stats()
assert isinstance(torch.cuda.memory_summary(), str)
assert torch.cuda.memory_reserved() >= before
for wrong in (lambda: torch.cuda.set_device(4), lambda: torch.ones(1, device="cuda:9"), lambda: torch.cuda.Stream(7)):
    text = ""
    try:
        wrong()
    except RuntimeError as error:
        text = str(error)
    assert "invalid device ordinal" in text
