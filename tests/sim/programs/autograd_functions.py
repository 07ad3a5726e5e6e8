"""Custom functions, double backward, torch.func."""

import torch
from torch import nn
from torch.autograd import forward_ad, functional, grad, gradcheck
from torch.func import functional_call, jacrev, jvp, stack_module_state, vjp, vmap
from torch.func import grad as fgrad


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        assert g.device == x.device
        return 3 * x**2 * g


class Hop(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, device):
        ctx.origin = x.device
        return x.to(device)

    @staticmethod
    def backward(ctx, g):
        return g.to(ctx.origin), None


x = torch.tensor([1.0, 2.0, 3.0], device="cuda:1", requires_grad=True)
y = Cube.apply(x).sum()
(g,) = grad(y, x, create_graph=True)
assert g.tolist() == [3, 12, 27]
(gg,) = grad(g.sum(), x)
assert gg.tolist() == [6, 12, 18]
assert gg.device.index == 1
Hop.apply(x, "cuda:3").pow(2).sum().backward()
assert x.grad.tolist() == [2, 4, 6]
assert x.grad.device.index == 1
assert gradcheck(Cube.apply, (torch.randn(3, dtype=torch.float64, device="cuda:2", requires_grad=True),))

# a gradient penalty over two devices
critic = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).to("cuda:2")
sample = torch.randn(5, 4, device="cuda:1", requires_grad=True)
score = critic(sample.to("cuda:2"))
(slope,) = grad(score.sum(), sample, create_graph=True)
penalty = (slope.norm(dim=1) - 1).pow(2).mean()
penalty.backward()
assert critic[0].weight.grad.device.index == 2
assert slope.device.index == 1

# accumulation, retained graphs, several roots
w = torch.ones(3, device="cuda", requires_grad=True)
for _ in range(2):
    (w * 2).sum().backward()
assert w.grad.tolist() == [4, 4, 4]
a, b = (w * 2).sum(), (w * 3).sum()
torch.autograd.backward([a, b])
assert w.grad.tolist() == [9, 9, 9]
c = (w**2).sum()
c.backward(retain_graph=True)
c.backward(torch.tensor(2.0, device="cuda"))
assert w.grad.tolist() == [15, 15, 15]
with torch.no_grad():
    w -= 0.1 * w.grad
assert torch.allclose(w.cpu(), torch.full((3,), -0.5))
jacobian = functional.jacobian(lambda t: t**2, torch.ones(2, device="cuda:1"))
assert jacobian.tolist() == [[2, 0], [0, 2]]
hessian = functional.hessian(lambda t: (t**3).sum(), torch.ones(2, device="cuda"))
assert hessian.tolist() == [[6, 0], [0, 6]]
with forward_ad.dual_level():
    dual = forward_ad.make_dual(torch.ones(2, device="cuda"), torch.full((2,), 3.0, device="cuda"))
    assert forward_ad.unpack_dual(dual**2).tangent.tolist() == [6, 6]
with torch.autograd.detect_anomaly(check_nan=True):
    torch.ones(2, device="cuda", requires_grad=True).sqrt().sum().backward()

# torch.func
v = torch.arange(3.0, device="cuda:1")
assert fgrad(lambda t: (t**2).sum())(v).tolist() == [0, 2, 4]
assert fgrad(lambda t: (t**2).sum())(v).device.index == 1
assert vmap(lambda t: t * 2 + v.sum())(v).tolist() == [3, 5, 7]
assert vmap(fgrad(lambda t: t**3))(v).tolist() == [0, 3, 12]
assert jacrev(torch.sin)(v).shape == (3, 3)
out, tangent = jvp(torch.exp, (torch.zeros(2, device="cuda"),), (torch.ones(2, device="cuda"),))
assert tangent.tolist() == [1, 1]
out, back = vjp(lambda t: t * 3, v)
assert back(torch.ones(3, device="cuda:1"))[0].tolist() == [3, 3, 3]
model = nn.Linear(3, 1).to("cuda:1")
parameters = {k: torch.ones_like(p) for k, p in model.named_parameters()}
assert functional_call(model, parameters, (v,)).item() == 4
samples = torch.randn(4, 3, device="cuda:1")
per_sample = vmap(fgrad(lambda p, s: functional_call(model, p, (s,)).sum()), in_dims=(None, 0))(parameters, samples)
assert torch.allclose(per_sample["weight"][:, 0], samples)
models = [nn.Linear(3, 2).to("cuda:1") for _ in range(3)]
stacked, buffers = stack_module_state(models)
ensemble = vmap(lambda p, b: functional_call(models[0], (p, b), (samples,)))(stacked, buffers)
assert torch.allclose(ensemble[1], models[1](samples), atol=1e-6)
assert vmap(lambda t: torch.rand(2, device="cuda:1") + t, randomness="different")(v).shape == (3, 2)
