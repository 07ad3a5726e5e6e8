"""Recomputation in the backward pass, and saved tensors on the host."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

torch.manual_seed(0)
model = nn.Sequential(*[nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Dropout(0.3)) for _ in range(4)])
x = torch.randn(5, 6)


def gradients(run, seed=3):
    copy = nn.Sequential(*[nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Dropout(0.3)) for _ in range(4)])
    copy.load_state_dict(model.state_dict())
    copy.cuda(1)
    torch.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)
    given = x.to("cuda:1").requires_grad_()
    run(copy, given).sum().backward()
    return [p.grad.cpu() for p in copy.parameters()] + [given.grad.cpu()]


def chain(call):
    def run(net, given):
        for block in net:
            given = call(block, given)
        return given

    return run


def on_cpu(net, given):
    with torch.autograd.graph.save_on_cpu(pin_memory=True):
        return net(given)


expected = gradients(lambda net, given: net(given))
for run in (
    chain(lambda block, given: checkpoint(block, given, use_reentrant=True)),
    chain(lambda block, given: checkpoint(block, given, use_reentrant=False)),
    lambda net, given: checkpoint_sequential(net, 2, given, use_reentrant=False),
    on_cpu,
):
    for one, other in zip(gradients(run), expected, strict=True):
        assert torch.allclose(one, other, atol=1e-6)


packed = []


def pack(tensor):
    packed.append(tensor.device)
    return tensor.cpu()


with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t.to("cuda:2")):
    y = torch.ones(3, device="cuda:2", requires_grad=True)
    z = (y * y).exp()
z.sum().backward()
assert y.grad.device == torch.device("cuda:2")
assert torch.allclose(y.grad.cpu(), torch.full((3,), 2 * 2.718281828))
assert packed

# over two devices, in a side stream
side = torch.cuda.Stream("cuda:0")
layer = nn.Linear(4, 4).to("cuda:0")
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    a = torch.randn(2, 4, device="cuda:0", requires_grad=True)
    b = checkpoint(lambda t: layer(t).relu().to("cuda:3"), a, use_reentrant=False)
b.sum().backward()
torch.cuda.current_stream().wait_stream(side)
assert a.grad.device.index == 0
assert a.grad.isfinite().all()
