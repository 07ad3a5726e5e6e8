"""Fake GPU tensors that require a gradient."""

import re

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import passes

from syncheck.sim import fake_gradients
from syncheck.sim.errors import NotSimulatedError

REFUSED = str(fake_gradients._unsupported_gradient()).partition(" is not")[0]


@pytest.fixture
def host():
    """A fake tensor on the host that requires a gradient."""
    with FakeTensorMode():
        return torch.ones(2, requires_grad=True)


@pytest.fixture
def placed(host):
    """A fake tensor on a GPU, of the same mode."""
    with host.fake_mode:
        return torch.ones(2, device="cuda")


def refused():
    return pytest.raises(NotSimulatedError, match=re.escape(REFUSED))


def test_a_fake_gpu_tensor_may_not_require_a_gradient(gpu):
    with FakeTensorMode():
        x = torch.ones(2, device="cuda")
        for require in (x.requires_grad_, lambda: setattr(x, "requires_grad", True), lambda: torch.nn.Parameter(x)):
            with refused():
                require()


CREATIONS = {
    "a shape": lambda: torch.empty(2, device="cuda", requires_grad=True),
    "another tensor": lambda: torch.zeros_like(torch.ones(2), device="cuda", requires_grad=True),
    "values": lambda: torch.tensor([1.0], device="cuda", requires_grad=True),
    "another tensor on the GPU": lambda: torch.zeros_like(torch.ones(2, device="cuda"), requires_grad=True),
    "a method": lambda: torch.ones(2).new_zeros(2, device="cuda", requires_grad=True),
}


@pytest.mark.parametrize("create", CREATIONS.values(), ids=CREATIONS)
def test_none_is_created(gpu, create):
    with FakeTensorMode(), refused():
        create()


MOVES = {
    "to": lambda host, placed: host.to("cuda"),
    "cuda": lambda host, placed: host.cuda(),
    "an operator": lambda host, placed: torch.ops.aten._to_copy.default(host, device="cuda"),
    "copy_": lambda host, placed: placed.copy_(host),
    "an assignment": lambda host, placed: placed.__setitem__(0, host[0]),
    "a number": lambda host, placed: placed * host.sum(),
    "a list": lambda host, placed: torch._foreach_mul([placed], host.sum()),
}


@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
def test_no_result_on_a_gpu_may_need_a_gradient(gpu, host, placed, move):
    with refused():
        move(host, placed)


def test_the_error_shows_why_a_module_cannot_be_moved(gpu):
    with FakeTensorMode():
        layer = torch.nn.Linear(2, 2)
        with pytest.raises(RuntimeError, match="Couldn't swap") as raised:  # also without a gradient, on any device
            layer.cuda()
    assert REFUSED in str(raised.value.__cause__)


RESULTS = {
    "without gradients": lambda host, placed: torch.no_grad()(host.cuda)(),
    "detached": lambda host, placed: host.detach().cuda(),
    "of a comparison": lambda host, placed: placed > host.sum(),
    "of the same size": lambda host, placed: torch.zeros_like(host, device="cuda"),
    "of a product": lambda host, placed: placed * placed,
}


@pytest.mark.parametrize("compute", RESULTS.values(), ids=RESULTS)
def test_results_without_a_gradient_are_made(gpu, host, placed, compute):
    assert compute(host, placed).device == torch.device("cuda:0")


def test_host_tensors_may_need_a_gradient(gpu, host):
    assert (host * 2).requires_grad


def test_an_exported_program_moves_to_a_gpu(gpu):
    program = torch.export.export(torch.nn.Linear(3, 3), (torch.ones(2, 3),))
    moved = passes.move_to_device_pass(program, "cuda")
    x = torch.ones(2, 3, device="cuda")
    module = moved.module()
    module(x).sum().backward()
    assert (module(x).is_cuda, module.weight.grad.is_cuda) == (True, True)
