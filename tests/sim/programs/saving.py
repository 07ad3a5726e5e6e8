"""state_dict, torch.save and torch.load in all forms, copies and pickles."""

import copy
import io
import pickle
import tempfile
from pathlib import Path

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).to("cuda:1")
optimizer = torch.optim.Adam(model.parameters())
model(torch.randn(5, 3, device="cuda:1")).sum().backward()
optimizer.step()


def stored(value):
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return buffer


def load(value, **kwargs):
    return torch.load(stored(value), **kwargs)


state = model.state_dict()
assert all(tensor.device == torch.device("cuda:1") for tensor in state.values())
for weights_only in (True, False):
    same = load(state, weights_only=weights_only)
    assert all(same[key].device == state[key].device and torch.equal(same[key], state[key]) for key in state)
    for location, expected in (
        ("cpu", "cpu"),
        ("cuda:2", "cuda:2"),
        ("cuda", "cuda:0"),
        (torch.device("cuda:3"), "cuda:3"),
        (torch.device("cpu"), "cpu"),
        ({"cuda:1": "cuda:0"}, "cuda:0"),
        ({"cuda:1": "cpu"}, "cpu"),
        (lambda storage, where: storage, "cpu"),
        (lambda storage, where: storage.cuda(2), "cuda:2"),
    ):
        found = load(state, map_location=location, weights_only=weights_only)
        for key in state:
            assert found[key].device == torch.device(expected), (location, found[key].device)
            assert torch.equal(found[key].cpu(), state[key].cpu())

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "checkpoint.pt"
    torch.save({"model": state, "optimizer": optimizer.state_dict(), "epoch": 3}, path)
    checkpoint = torch.load(path, map_location="cuda:2", weights_only=True)
    other = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).to("cuda:2")
    other.load_state_dict(checkpoint["model"])
    again = torch.optim.Adam(other.parameters())
    again.load_state_dict(checkpoint["optimizer"])
    moments = [s["exp_avg"] for s in again.state.values()]
    assert all(m.device == torch.device("cuda:2") for m in moments)
    mapped = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    assert mapped["model"]["0.weight"].device.type == "cpu"
    torch.save(state, path, _use_new_zipfile_serialization=False)
    legacy = torch.load(path, weights_only=True)
    assert legacy["0.weight"].device == torch.device("cuda:1")
    assert torch.equal(legacy["0.weight"], state["0.weight"])

# whole objects
whole = load(model, weights_only=False)
assert whole[0].weight.device == torch.device("cuda:1")
assert torch.equal(whole[0].weight, model[0].weight)
view = torch.arange(6.0, device="cuda:3")[2:4]
pair = load({"a": view, "b": view}, weights_only=True)
assert pair["a"].data_ptr() == pair["b"].data_ptr()
assert pair["a"].tolist() == [2.0, 3.0]
parameter = load(nn.Parameter(torch.ones(2, device="cuda:1")), weights_only=True)
assert isinstance(parameter, nn.Parameter)
assert parameter.is_cuda
assert parameter.requires_grad

# copies
tensor = torch.arange(4.0, device="cuda:2", requires_grad=True)
twin = copy.deepcopy(tensor)
assert twin.device == tensor.device
assert twin.requires_grad
with torch.no_grad():
    twin.add_(1)
assert tensor.tolist() == [0, 1, 2, 3]
base = torch.arange(4.0, device="cuda:2")
both = copy.deepcopy([base, base[1:]])
both[0][1] = 9
assert both[1][0].item() == 9
assert base[1].item() == 1
clone = copy.deepcopy(model)
assert clone[0].weight.device == torch.device("cuda:1")
assert clone[0].weight.data_ptr() != model[0].weight.data_ptr()
optimizer_copy = copy.deepcopy(optimizer)
assert next(iter(optimizer_copy.state.values()))["exp_avg"].is_cuda
assert copy.copy(base).data_ptr() == base.data_ptr()
optimizer_pickled = pickle.loads(pickle.dumps(optimizer))
assert next(iter(optimizer_pickled.state.values()))["exp_avg"].is_cuda

# pickles
back = pickle.loads(pickle.dumps(base))
assert back.device == base.device
assert torch.equal(back, base)
back = pickle.loads(pickle.dumps(model))
assert back[0].weight.device == torch.device("cuda:1")
