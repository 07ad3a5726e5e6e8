"""Modules and how they move; buffers and hooks."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))
        self.register_buffer("hidden", torch.ones(2), persistent=False)

    def forward(self, x):
        self.steps += 1
        return self.norm(self.conv(x)).relu().mean((2, 3))


torch.manual_seed(0)
net = Net()
x = torch.randn(2, 3, 5, 5)
expected = net(x).detach()
net = net.cuda()
assert all(t.is_cuda for t in (*net.parameters(), *net.buffers()))
assert net.steps.item() == 1
assert torch.allclose(net(x.cuda()).cpu(), expected, atol=1e-5)
assert net.half().conv.weight.dtype == torch.float16
assert net.conv.weight.is_cuda
assert net.steps.dtype == torch.long
net.bfloat16()
assert net.norm.running_mean.dtype == torch.bfloat16
net.float().double().float()
net.to("cuda:2")
assert net.conv.bias.device.index == 2
net.to(device="cuda:1", dtype=torch.float64)
assert net.conv.weight.dtype == torch.float64
net.to(torch.float32)
net.to(torch.ones(1, device="cuda:3"))
assert next(net.parameters()).device == torch.device("cuda:3")
net.to(memory_format=torch.channels_last)
assert net.conv.weight.is_contiguous(memory_format=torch.channels_last)
parameter = net.conv.weight
net.cpu()
assert net.conv.weight is parameter
assert parameter.device.type == "cpu"
net.cuda(1)
net.to("cuda:1")
assert parameter.device.index == 1
net.type(torch.cuda.FloatTensor)
assert net.conv.weight.is_cuda
net.eval()
with torch.inference_mode():
    assert net(x.to("cuda:1")).device.index == 1
net.train()

# hooks
calls = []
layer = nn.Linear(3, 2).to("cuda:1")
layer.register_forward_pre_hook(lambda m, a: calls.append(("pre", a[0].device.index)))
layer.register_forward_hook(lambda m, a, out: calls.append(("forward", out.device.index)))
layer.register_full_backward_hook(lambda m, i, o: calls.append(("backward", o[0].device.index)))
layer.register_full_backward_pre_hook(lambda m, o: calls.append(("pre backward", o[0].device.index)))
layer.weight.register_hook(lambda g: calls.append(("gradient", g.device.index)) or g * 2)
layer.weight.register_post_accumulate_grad_hook(lambda p: calls.append(("accumulated", p.grad.device.index)))
given = torch.ones(4, 3, device="cuda:1", requires_grad=True)
out = layer(given)
out.register_hook(lambda g: calls.append(("output", g.device.index)))
out.grad_fn.register_hook(lambda i, o: calls.append(("node", o[0].device.index)))
out.retain_grad()
out.sum().backward()
assert all(index == 1 for _, index in calls), calls
expected = {"pre", "forward", "backward", "pre backward", "gradient", "accumulated", "output", "node"}
assert {name for name, _ in calls} == expected
assert torch.equal(layer.weight.grad.cpu(), torch.full((2, 3), 8.0))
assert out.grad.is_cuda


# an optimizer step inside the backward pass
model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1)).to("cuda:2")
optimizers = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}


def step(p):
    optimizers[p].step()
    optimizers[p].zero_grad()


for p in model.parameters():
    p.register_post_accumulate_grad_hook(step)
before = model[0].weight.detach().clone()
model(torch.ones(2, 3, device="cuda:2")).sum().backward()
assert not torch.equal(before, model[0].weight)
assert model[0].weight.grad is None

shared = nn.Linear(2, 2)
tied = nn.ModuleList([shared, nn.Linear(2, 2)])
tied[1].weight = shared.weight
tied.cuda(3)
assert tied[1].weight is tied[0].weight
norm = nn.utils.parametrizations.weight_norm(nn.Linear(3, 3)).cuda()
norm(torch.ones(1, 3, device="cuda")).sum().backward()
spectral = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3)).cuda()
spectral(torch.ones(1, 3, device="cuda")).sum().backward()
vector = nn.utils.parameters_to_vector(model.parameters())
nn.utils.vector_to_parameters(vector * 0, model.parameters())
assert model[0].weight.abs().sum().item() == 0
average = torch.optim.swa_utils.AveragedModel(model)
average.update_parameters(model)
assert next(average.parameters()).device.index == 2
lazy = nn.LazyLinear(3).cuda()
assert lazy(torch.ones(1, 4, device="cuda")).shape == (1, 3)
assert lazy.weight.is_cuda
nn.init.orthogonal_(lazy.weight)
nn.init.trunc_normal_(lazy.weight)
