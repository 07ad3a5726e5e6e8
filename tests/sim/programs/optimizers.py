"""Every optimizer of torch.optim on several devices takes the same steps as on the CPU."""

import warnings

import torch
from torch import nn

SETTINGS = {
    "Adadelta": [{}, {"foreach": True}, {"foreach": False}, {"capturable": True, "foreach": True}],
    "Adagrad": [{}, {"foreach": True}, {"foreach": False}, {"lr_decay": 0.1}],
    "Adam": [{}, {"fused": True}, {"foreach": True, "capturable": True}, {"amsgrad": True}, {"differentiable": True}],
    "AdamW": [{}, {"fused": True}, {"foreach": False, "capturable": True}, {"maximize": True}],
    "Adamax": [{}, {"foreach": True}, {"foreach": False, "capturable": True}],
    "ASGD": [{}, {"foreach": True}, {"foreach": False}],
    "NAdam": [{}, {"foreach": True}, {"capturable": True, "foreach": True}, {"foreach": False}],
    "RAdam": [{}, {"foreach": True}, {"capturable": True, "foreach": True}, {"foreach": False}],
    "RMSprop": [{}, {"foreach": True, "momentum": 0.9}, {"capturable": True}, {"foreach": False, "centered": True}],
    "Rprop": [{}, {"foreach": True}, {"foreach": False}],
    "SGD": [{}, {"fused": True, "momentum": 0.9}, {"foreach": False, "nesterov": True, "momentum": 0.5}],
    "Adafactor": [{}, {"foreach": True}, {"foreach": False}],
    "Muon": [{}],
    "LBFGS": [{"max_iter": 3}],
    "SparseAdam": [],
}


class Net(nn.Module):
    def __init__(self, first, second):
        super().__init__()
        self.a, self.b = nn.Linear(6, 6, bias=False), nn.Linear(6, 6, bias=False)
        self.first, self.second = first, second

    def place(self):
        self.a.to(self.first)
        self.b.to(self.second)
        return self

    def forward(self, x):
        return self.b(torch.tanh(self.a(x.to(self.first))).to(self.second))


def train(name, settings, first, second):
    torch.manual_seed(0)
    net = Net(first, second)
    x, y = torch.randn(8, 6), torch.randn(8, 6)
    net.place()
    optimizer = getattr(torch.optim, name)(net.parameters(), **settings)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)

    def closure():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(x), y.to(second))
        loss.backward()
        return loss

    for _ in range(3):
        if name == "LBFGS":
            optimizer.step(closure)
        else:
            closure()
            optimizer.step()
        scheduler.step()
    state = optimizer.state_dict()
    optimizer.load_state_dict(state)
    return [parameter.detach().cpu() for parameter in net.parameters()], net


warnings.simplefilter("ignore")
for name, many in SETTINGS.items():
    for settings in many if hasattr(torch.optim, name) else ():  # Muon is there since torch 2.9
        plain = {k: v for k, v in settings.items() if k not in {"fused", "foreach", "capturable", "differentiable"}}
        expected, _ = train(name, plain, "cpu", "cpu")
        if settings.get("differentiable"):
            continue  # see below
        for first, second in (("cuda:0", "cuda:0"), ("cuda:1", "cuda:3")):
            if name == "LBFGS" and first != second:
                continue  # its parameters must be on one device
            found, net = train(name, settings, first, second)
            assert [str(p.device) for p in net.parameters()] == [first, second], (name, settings)
            for one, other in zip(found, expected, strict=True):
                assert torch.allclose(one, other, atol=1e-5), (name, settings, one, other)

# differentiable: through the step itself
weight = torch.ones(3, device="cuda:2", requires_grad=True)
inner = weight * 2
optimizer = torch.optim.Adam([inner.detach().requires_grad_()], lr=0.1, differentiable=True)
leaf = optimizer.param_groups[0]["params"][0]
(leaf**2).sum().backward()
optimizer.param_groups[0]["params"][0] = copy = leaf.clone()
copy.grad = leaf.grad
optimizer.step()
copy.sum().backward()
assert leaf.grad is not None
assert optimizer.param_groups[0]["params"][0].device.index == 2

# sparse gradients
torch.manual_seed(0)
table = nn.Embedding(10, 4, sparse=True).to("cuda:1")
reference = nn.Embedding(10, 4, sparse=True)
reference.load_state_dict({k: v.cpu() for k, v in table.state_dict().items()})
for module in (table, reference):
    optimizer = torch.optim.SparseAdam(module.parameters(), lr=0.1)
    rows = torch.tensor([1, 2, 2, 5]).to(module.weight.device)
    module(rows).sum().backward()
    assert module.weight.grad.is_sparse
    assert module.weight.grad.device == module.weight.device
    optimizer.step()
assert torch.allclose(table.weight.cpu(), reference.weight)
