"""Several Python threads, each with its device and stream."""

import queue
import threading
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

results = {}


def work(index):
    torch.cuda.set_device(index)
    assert torch.cuda.current_device() == index
    model = nn.Linear(3, 3).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        assert torch.cuda.current_stream() == stream
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(2, 3, device="cuda")).sum().backward()
            optimizer.step()
    torch.cuda.current_stream().wait_stream(stream)
    results[index] = model.weight.detach().sum().item()
    assert model.weight.device.index == index


threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert sorted(results) == [0, 1, 2, 3]
assert torch.cuda.current_device() == 0

with ThreadPoolExecutor(max_workers=2) as executor:
    futures = [executor.submit(lambda i=i: (torch.ones(4, device=f"cuda:{i}") * i).sum().item()) for i in range(4)]
    assert [f.result() for f in futures] == [0, 4, 8, 12]
    assert list(executor.map(lambda i: torch.full((2,), i, device="cuda:1").device.index, range(3))) == [1, 1, 1]


def produce(out):
    torch.cuda.set_device(1)
    stream = torch.cuda.Stream()
    for value in range(3):
        with torch.cuda.stream(stream):
            data = torch.full((5,), float(value), device="cuda")
            event = torch.cuda.Event()
            event.record()
        out.put((data, event))
    out.put(None)


torch.cuda.set_device(1)
channel = queue.Queue()
producer = threading.Thread(target=produce, args=(channel,), daemon=True)
producer.start()
total = 0
while (item := channel.get()) is not None:
    data, event = item
    event.wait()
    data.record_stream(torch.cuda.current_stream())
    total += data.sum().item()
producer.join()
assert total == 15

# backward in another thread than forward
model = nn.Linear(2, 2).cuda()
loss = model(torch.ones(1, 2, device="cuda")).sum()
with ThreadPoolExecutor(1, initializer=torch.cuda.set_device, initargs=(1,)) as executor:
    executor.submit(loss.backward).result()
assert model.weight.grad.device.index == 1
timer = threading.Timer(0.01, lambda: results.update(timer=torch.cuda.device_count()))
timer.start()
timer.join()
assert results["timer"] == 4

# beside threads, parameters are swapped with what replaces them
torch.__future__.set_swap_module_params_on_conversion(True)
model.half()
torch.__future__.set_swap_module_params_on_conversion(False)
assert model.weight.dtype == torch.float16
