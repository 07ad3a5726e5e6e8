"""Torch's branches and loops under a dispatch mode, where they are not compiled."""

from contextlib import nullcontext

import pytest
import torch
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.utils._python_dispatch import TorchDispatchMode

from syncheck.instrument.control_flow import install_control_flow
from syncheck.instrument.patching import Patches


class Watching(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


@pytest.fixture
def mode():
    patches = Patches()
    install_control_flow(torch.compile, lambda _: nullcontext(), patches)
    with Watching() as mode:
        yield mode
    patches.undo()


@pytest.mark.parametrize("sign", [1, -1])
def test_a_branch_is_taken_and_has_a_gradient(mode, sign):
    factor, x = torch.tensor(2.0, requires_grad=True), torch.full((2,), float(sign))
    y = torch.cond(x.sum() > 0, lambda x: x * factor, lambda x: {"other": x * factor**2}, (x,))
    (y if sign > 0 else y["other"]).sum().backward()
    assert factor.grad == (2 if sign > 0 else -8)


@pytest.mark.parametrize(("n_rounds", "expected"), [(0, [1, 1]), (3, [8, 8])])
def test_a_loop_runs_until_its_condition_is_false(mode, n_rounds, expected):
    x = torch.ones(2)
    n, (y,) = while_loop(lambda n, _: n < n_rounds, lambda n, part: (n + 1, [part[0] * 2]), (torch.tensor(0), [x]))
    assert (n, y.tolist()) == (n_rounds, expected)
    assert y is not x
    assert mode.seen.count(torch.ops.aten.mul.Tensor) == n_rounds


def test_map_and_scan_accept_and_return_nested_structures(mode):
    rows = {"x": torch.ones(3, 2), "y": torch.arange(3)}
    made = torch._higher_order_ops.map(lambda row, factor: (row["x"] * factor, [row["y"]]), rows, torch.tensor(2.0))
    assert torch.equal(made[0], torch.full((3, 2), 2.0))
    assert made[1][0].tolist() == [0, 1, 2]
    total, found = scan(lambda total, row: ({"sum": total["sum"] + row}, row * 2), {"sum": torch.tensor(0)}, rows["y"])
    assert total["sum"] == 3
    assert found.tolist() == [0, 2, 4]


def test_other_functions_are_compiled(mode):
    asked = []
    double = torch.compile(lambda x: x * 2, backend=lambda graph, _: asked.append(graph) or graph)
    assert double(torch.ones(2)).tolist() == [2, 2]
