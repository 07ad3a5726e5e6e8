"""Tracers that do not really run a program work on simulated GPUs or are rejected by name, without side effects."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import syncheck
from tests.sim.conftest import run_program

TRACED = """
import torch
from functorch.compile import aot_function, nop
from torch._subclasses.fake_tensor import FakeTensorMode
model, x = torch.nn.Linear(4, 4).cuda(), torch.ones(2, 4, device="cuda")
try:
    {call}
except Exception as error:
    assert "is not simulated" in str(error), error
    assert "on the CPU" in str(error)
    print("refused")
assert model(x).is_cuda
"""
CALLS = {
    "export": "torch.export.export(model, (x,))",
    "strict export": "torch.export.export(model, (x,), strict=True)",
    "ahead of time": "aot_function(torch.sin, fw_compiler=nop)(model.weight)",
    "fake tensors": "FakeTensorMode().from_tensor(model.weight) * 2",
}


@pytest.fixture
def checked():
    with syncheck.check(backend="sim") as report:
        yield report


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_tracing_with_gradients_is_rejected_without_side_effects(call, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(TRACED.format(call=call))
    status, report, log = run_program(path, tmp_path)
    assert status == 0, log
    assert "refused" in log
    assert report["findings"] == []


def test_tracers_that_run_the_program_are_supported(checked):
    model, x = torch.nn.Linear(4, 4).cuda(), torch.ones(2, 4, device="cuda")
    assert make_fx(model)(x)(x).is_cuda
    assert torch.fx.symbolic_trace(model)(x).is_cuda
    assert torch.vmap(lambda row: row.sum())(x).is_cuda
    assert torch.func.jacrev(lambda row: row * 2)(x).is_cuda
    assert torch.func.functionalize(lambda value: value.add_(1))(x).is_cuda


def test_a_fake_of_a_tensor_has_its_gpu_index(checked):
    fake = FakeTensorMode().from_tensor(torch.ones(3, device="cuda:1"))
    assert (fake * 2).device == torch.device("cuda", 1)


def test_a_wrapper_subclass_has_the_gpu_it_was_created_for(checked):
    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)

        def __init__(self, inner):
            self.inner = inner

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            opened = [value.inner if isinstance(value, Wrapper) else value for value in args]
            return Wrapper(func(*opened, **(kwargs or {})))

    wrapped = Wrapper(torch.ones(3, device="cuda:1"))
    assert (wrapped * 2).device == torch.device("cuda", 1)
    assert wrapped.is_cuda
    assert wrapped.get_device() == 1
    assert Wrapper(torch.ones(3)).device.type == "cpu"


def test_a_nested_tensor_moves_with_its_parts(checked):
    rows = [torch.ones(2, 3), torch.ones(4, 3)]
    nested = torch.nested.nested_tensor(rows, layout=torch.jagged, requires_grad=True)
    moved = nested.to("cuda")
    assert moved.device == moved.values().device == moved.offsets().device == torch.device("cuda:0")
    assert (moved + nested.cuda()).shape[2] == 3  # all rows have the same length
    torch.nn.Linear(3, 2).cuda()(moved).values().sum().backward()
    assert nested.grad.device.type == nested.grad.values().device.type == "cpu"
    back = moved.detach().cpu()
    assert (back.device.type, back.values().device.type) == ("cpu", "cpu")
    assert torch.equal(back.values(), torch.cat(rows))


def test_fake_tensors_are_created_and_moved_as_on_a_gpu(checked):
    with FakeTensorMode():
        made = torch.ones(2, device="cuda")
        moved = [torch.ones(2).cuda(1), torch.ones(2).to("cuda"), (made + made.clone()), made.cpu()]
        moved += [torch.tensor([1.0], device="cuda"), torch.tensor(1).cuda() + 1]  # whose values the mode knows
        moved += [made.to("cuda:1"), made.to("cuda:1").to("cuda"), made.to("cpu")]
        with pytest.raises(RuntimeError, match=r"same device|two different devices"):  # the latter up to torch 2.11
            made + torch.ones(2)
    assert (made.device, made.is_cuda) == (torch.device("cuda:0"), True)
    assert [str(tensor.device) for tensor in moved[:6]] == ["cuda:1", "cuda:0", "cuda:0", "cpu", "cuda:0", "cuda:0"]
    assert [str(tensor.device) for tensor in moved[6:]] == ["cuda:1", "cuda:0", "cpu"]
    assert torch.ones(2, device="cuda").sum().item() == 2
