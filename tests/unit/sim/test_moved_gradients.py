"""Autograd through moves of tensors between devices."""

import pytest
import torch
from torch.autograd import forward_ad

from syncheck.sim import moved_gradients


def test_gradients_take_the_same_path_back(gpus):
    w = torch.ones(3, requires_grad=True)
    (w.to("cuda:0").half().to("cuda:1") * 2).sum().backward()
    assert (w.grad.device.type, w.grad.tolist()) == ("cpu", [2, 2, 2])
    target = torch.zeros(3, device="cuda:1")
    (target.copy_(w) * 3).sum().backward()
    assert w.grad.tolist() == [5, 5, 5]


def test_a_gradient_returns_from_a_part_of_another_tensor(gpus):
    for here, there in (("cuda:0", "cpu"), ("cpu", "cuda:0"), ("cuda:0", "cuda:1")):
        w = torch.ones(3, device=here, requires_grad=True)
        target = torch.zeros(2, 3, device=there)
        target[0] = w
        target[1] = w.half()
        (target * 2).sum().backward()
        assert (str(w.grad.device), w.grad.tolist()) == (here, [4, 4, 4])


@pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")  # made by torch.func itself
def test_a_tangent_takes_the_same_path(gpus):
    x, tangent = torch.ones(3, device="cuda:0"), torch.tensor([1.0, 2.0, 3.0], device="cuda:0")
    for target in ("cuda:1", "cpu"):
        moved, along = torch.func.jvp(lambda x, target=target: x.to(target) * 2, (x,), (tangent,))
        assert (along.device, along.tolist()) == (moved.device, [2, 4, 6])
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, tangent)
            assert forward_ad.unpack_dual(dual.to(target) * 2).tangent.tolist() == [2, 4, 6]
            into = torch.zeros(3, device=target)
            into.copy_(dual)
            assert forward_ad.unpack_dual(into).tangent.tolist() == [1, 2, 3]
            assert forward_ad.unpack_dual(x.to(target)).tangent is None


@pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")  # made by torch.func itself
@pytest.mark.parametrize("target", ["cuda:1", "cpu"])
def test_function_transforms_support_moves(gpus, target):
    rows = torch.arange(6.0, device="cuda:0").reshape(2, 3)
    moved = torch.vmap(lambda row: row.to(target) * 2, in_dims=1)(rows)
    assert (str(moved.device), moved.tolist()) == (target, [[0, 6], [2, 8], [4, 10]])

    def cube(x):
        return (x.to(target) ** 3).sum()

    assert torch.func.grad(cube)(rows[1]).tolist() == [27, 48, 75]
    for jacobian in (torch.func.jacfwd, torch.func.jacrev):
        assert jacobian(cube)(rows[1]).tolist() == [27, 48, 75]
    assert torch.func.hessian(cube)(rows[1]).diagonal().tolist() == [18, 24, 30]


def test_a_gradient_goes_back_through_pinning(gpu):
    h = torch.ones(3, requires_grad=True)
    pinned = h.pin_memory()
    assert pinned.is_pinned()
    (pinned * 2).sum().backward()
    assert h.grad.tolist() == [2, 2, 2]
    with torch.no_grad():
        assert not h.pin_memory().requires_grad


def test_a_sent_back_tensor_moves_only_its_gradient():
    moves = []

    class Shim:
        def index(self, tensor):
            return 7

        def move(self, tensor, target, **options):
            moves.append(target)
            return tensor * 10

    x = torch.ones(2, requires_grad=True)
    sent = moved_gradients.returning_gradient(x, Shim())
    assert (sent.data_ptr(), moves) == (x.data_ptr(), [])
    sent.sum().backward()
    assert (x.grad.tolist(), moves) == ([10, 10], [7])
