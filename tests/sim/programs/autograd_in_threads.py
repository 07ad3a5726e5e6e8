"""Backward of what other threads made, and through nodes that launch nothing."""

import threading

import torch

side = torch.cuda.Stream()
default = torch.cuda.default_stream()
weight = torch.ones(64, device="cuda", requires_grad=True)
scale = torch.ones(64, device="cuda")


def in_thread(function):
    made = []
    thread = threading.Thread(target=lambda: made.append(function()))
    thread.start()
    thread.join()
    return made[0]


# sequence numbers count in each thread: the first ones of this one were made on `side`
torch.cuda.synchronize()
with torch.cuda.stream(side):
    for _ in range(4):
        unused = weight * 2
torch.cuda.synchronize()
logged, streams = torch.zeros(64, device="cuda"), []


def log(grad):
    streams.append(torch.cuda.current_stream())
    with torch.cuda.stream(default):
        logged.add_(grad)


def on_the_default_stream():
    hidden = weight * 2
    hidden.register_hook(log)
    return hidden.view(8, 8).mul(2).view(64) * scale


out = in_thread(on_the_default_stream)
out.backward(torch.ones(64, device="cuda"))
assert streams == [default], streams
assert logged.sum().item() == 128


# made in a thread on a side stream, run here
def on_the_side_stream():
    side.wait_stream(default)
    with torch.cuda.stream(side):
        hidden = weight * 3
        hidden.register_hook(lambda grad: streams.append(torch.cuda.current_stream()))
        result = (hidden * scale).sum()
    default.wait_stream(side)
    return result


weight.grad = None
streams.clear()
in_thread(on_the_side_stream).backward()
assert streams == [side], streams

# made here, run in a thread
streams.clear()
with torch.cuda.stream(side):
    hidden = weight * 3
    hidden.register_hook(lambda grad: streams.append(torch.cuda.current_stream()))
    total = hidden.sum()
in_thread(total.backward)
assert streams == [side], streams


# nodes that launch nothing: an addition, an identity
class Identity(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return grad


torch.cuda.synchronize()
x = torch.ones(4, device="cuda", requires_grad=True)
constant = torch.ones(4, device="cuda")
for silent in (lambda y: y + constant, Identity.apply, lambda y: Identity.apply(y + constant)):
    y = x * 2
    side.wait_stream(default)
    with torch.cuda.stream(side):
        z = silent(y) * 3
        y.record_stream(side)
    default.wait_stream(side)
    z.backward(torch.ones(4, device="cuda"))
    assert x.grad.sum().item() > 0
