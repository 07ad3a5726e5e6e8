"""nn.DataParallel over two and four devices, with buffers and dictionaries."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(6, 12), nn.LayerNorm(12), nn.Linear(12, 2)
        self.register_buffer("scale", torch.tensor(2.0))

    def forward(self, batch):
        assert batch["x"].device == self.first.weight.device == self.scale.device
        return {"out": self.last(self.norm(torch.relu(self.first(batch["x"])))) * self.scale}


torch.manual_seed(0)
reference = Net()
x, y = torch.randn(12, 6), torch.randn(12, 2)
nn.functional.mse_loss(reference({"x": x})["out"], y).backward()
for ids in ([0, 1], [0, 1, 2, 3], [2, 3], [0], None):
    model = Net()
    model.load_state_dict(reference.state_dict())
    first = ids[0] if ids else 0
    model = nn.DataParallel(model.cuda(first), device_ids=ids)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(2):
        optimizer.zero_grad()
        out = model({"x": x.cuda(first)})["out"]
        assert out.device == torch.device("cuda", first), out.device
        loss = nn.functional.mse_loss(out, y.cuda(first))
        loss.backward()
        if step == 0:
            for one, other in zip(model.module.parameters(), reference.parameters(), strict=True):
                assert torch.allclose(one.grad.cpu(), other.grad, atol=1e-6)
        optimizer.step()

out = nn.parallel.data_parallel(nn.Linear(3, 3).cuda(), torch.randn(8, 3, device="cuda"), [0, 1, 2])
assert out.shape == (8, 3)
