"""Autocast and gradient scaling."""

import torch
from torch import nn

torch.manual_seed(0)
for dtype in (torch.float16, torch.bfloat16):
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.LayerNorm(16), nn.Linear(16, 4)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cuda", enabled=dtype == torch.float16)
    before = [p.detach().clone() for p in model.parameters()]
    for _ in range(3):
        x, y = torch.randn(32, 8, device="cuda"), torch.randint(4, (32,), device="cuda")
        optimizer.zero_grad()
        with torch.autocast(device_type="cuda", dtype=dtype):
            assert torch.is_autocast_enabled("cuda")
            assert torch.get_autocast_dtype("cuda") == dtype
            hidden = model[0](x)
            assert hidden.dtype == dtype, hidden.dtype
            with torch.autocast("cuda", enabled=False):
                assert model[0](x).dtype == torch.float32
            loss = nn.functional.cross_entropy(model(x), y)
            assert loss.dtype == torch.float32, loss.dtype
        assert not torch.is_autocast_enabled("cuda")
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    assert any(not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert all(p.dtype == torch.float32 and p.is_cuda for p in model.parameters())

# an overflow skips the step and halves the scale, on two devices
scaler = torch.amp.GradScaler(init_scale=4.0)
layers = [nn.Linear(2, 1).to(f"cuda:{i}") for i in range(2)]
optimizer = torch.optim.SGD([p for layer in layers for p in layer.parameters()], lr=1.0)
kept = layers[0].weight.detach().clone()
first = layers[0](torch.full((1, 2), float("inf"), device="cuda:0")).sum()
loss = first + layers[1](torch.ones(1, 2, device="cuda:1")).sum().to("cuda:0")
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
assert torch.equal(kept, layers[0].weight)
assert scaler.get_scale() == 2.0
state = scaler.state_dict()
scaler.load_state_dict(state)


class Double(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(ctx, x):
        assert not torch.is_autocast_enabled("cuda")
        return x * 2

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx, grad):
        return grad * 2


x = torch.ones(3, device="cuda:1", dtype=torch.float16, requires_grad=True)
with torch.autocast("cuda"):
    y = Double.apply(x)
    assert y.dtype == torch.float32
    assert torch.mm(torch.ones(2, 2, device="cuda"), torch.ones(2, 2, device="cuda")).dtype == torch.float16
    assert torch.exp(torch.ones(2, device="cuda", dtype=torch.float16)).dtype == torch.float32
    assert torch.mm(torch.ones(2, 2), torch.ones(2, 2)).dtype == torch.float32  # a CPU tensor is none of its business
y.sum().backward()
assert torch.equal(x.grad.cpu(), torch.full((3,), 2.0, dtype=torch.float16))


@torch.autocast("cuda", dtype=torch.bfloat16)
def forward(a):
    return a @ a


assert forward(torch.eye(2, device="cuda:2")).dtype == torch.bfloat16
