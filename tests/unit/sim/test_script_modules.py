"""TorchScript modules loaded onto a virtual GPU."""

import io
import warnings

import pytest
import torch

from syncheck.sim.script_modules import tensors_of_script


class Shifted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
        self.register_buffer("shift", torch.full((2,), 5.0))

    def forward(self, x):
        return self.layers(x) + self.shift


@pytest.fixture(autouse=True)
def deprecated():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def saved(module):
    buffer = io.BytesIO()
    torch.jit.save(module, buffer)
    buffer.seek(0)
    return buffer


@pytest.fixture(params=["scripted", "traced", "frozen"])
def model(request):
    made = Shifted().eval()
    if request.param == "traced":
        return torch.jit.trace(made, torch.ones(1, 3))
    scripted = torch.jit.script(made)
    return torch.jit.freeze(scripted) if request.param == "frozen" else scripted


def test_a_module_is_loaded_onto_a_gpu(gpu, model):
    loaded = torch.jit.load(saved(model), map_location="cuda")
    x = torch.ones(4, 3)
    y = loaded(x.cuda())
    assert y.is_cuda
    assert torch.allclose(y.cpu(), model(x))
    assert all(tensor.is_cuda for tensor in tensors_of_script(loaded._c) if tensor.dim())


def test_a_file_is_loaded_onto_the_named_gpu(gpus, tmp_path):
    torch.jit.script(Shifted()).save(tmp_path / "shifted.pt")
    loaded = torch.jit.load(tmp_path / "shifted.pt", map_location=torch.device("cuda", 1))
    assert {str(tensor.device) for tensor in loaded.state_dict().values()} == {"cuda:1"}


@pytest.mark.parametrize("place", [None, "cpu"])
def test_a_module_for_the_host_stays_there(gpu, place):
    loaded = torch.jit.load(saved(torch.jit.script(Shifted())), map_location=place)
    assert not any(tensor.is_cuda for tensor in tensors_of_script(loaded._c))
