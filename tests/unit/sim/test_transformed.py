"""Torch's control flow in the simulator: unchanged on the CPU, and with all its launches on a GPU."""

import pytest
import torch
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.fx.experimental.proxy_tensor import make_fx

from syncheck.sim.errors import NotSimulatedError
from syncheck.sim.transformed import without_simulation


def branch(x):
    return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))


def repeat(x):
    return while_loop(lambda n, y: n < 3, lambda n, y: (n + 1, y * 2), (torch.zeros((), device=x.device), x))[1]


def rows(x):
    return torch._higher_order_ops.map(lambda row, factor: row * factor, x, torch.full((2,), 3.0, device=x.device))


def running(x):
    return scan(lambda total, row: (total + row, total * row), torch.zeros(2, device=x.device), x)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_values_and_gradients_match_the_executed_functions(gpu, device):
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], device=device, requires_grad=True)
    total, products = running(x)
    assert total.tolist() == [4, 6]
    assert products.tolist() == [[0, 0], [3, 8]]
    assert torch.equal(branch(x), x.sin())
    assert torch.equal(repeat(x), x * 8)
    assert torch.equal(rows(x), x * 3)
    (branch(x) + repeat(x) + rows(x)).sum().backward()
    assert torch.equal(x.grad, x.cos() + 11)


@pytest.mark.parametrize(("work", "operator"), [(branch, "sin"), (repeat, "mul"), (rows, "mul"), (running, "add")])
def test_executed_operators_are_reported_on_a_gpu(gpu, work, operator):
    x = torch.ones(2, 2, device="cuda")
    made = gpu.calls_of(lambda: work(x))
    assert any(call.startswith(f"launch cuda:0 {operator} ") for call in made)


def test_transformations_treat_a_branch_as_a_whole(gpu):
    x = torch.tensor([[1.0, 2.0], [-1.0, -2.0]])
    each = torch.func.vmap(lambda choice, row: torch.cond(choice, torch.sin, torch.cos, (row,)))
    assert torch.equal(each(torch.tensor([True, False]), x), torch.stack([x[0].sin(), x[1].cos()]))


@pytest.mark.parametrize("tracing_mode", ["real", "symbolic"])
def test_traces_contain_both_branches(gpu, tracing_mode):
    code = make_fx(branch, tracing_mode=tracing_mode)(torch.ones(2)).code
    assert "torch.ops.higher_order.cond(gt, true_graph_0, false_graph_0" in code


def test_an_exported_model_contains_both_branches(gpu):
    class Branch(torch.nn.Module):
        def forward(self, x):
            return branch(x)

    exported = torch.export.export(Branch(), (torch.ones(2),))
    assert "higher_order.cond" in exported.graph_module.code
    x = torch.full((2,), -1.0)
    assert torch.equal(exported.module()(x), x.cos())


def test_a_transformed_branch_on_a_gpu_is_rejected(gpu):
    with pytest.raises(NotSimulatedError, match=r"torch\.cond"):
        torch.func.vmap(branch)(torch.ones(2, 2, device="cuda"))


def test_work_below_the_simulator_is_not_reported(gpu):
    def double():
        with without_simulation((torch.ones(2),)):
            return torch.ones(2) * 2

    assert gpu.calls_of(double) == []
    assert (torch.ones(2, device="cuda") * 2).is_cuda
