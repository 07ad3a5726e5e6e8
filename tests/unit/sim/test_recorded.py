"""Graphs that `make_fx` records on simulated GPUs: moves and devices are those that the program names."""

import pytest
import torch
from torch.fx import Interpreter
from torch.fx.experimental.proxy_tensor import make_fx

from syncheck.sim.errors import NotSimulatedError
from syncheck.sim.recorded import is_called_by_graph, is_recording

PROGRAMS = {
    "a move to the host": lambda x: x.cpu() + torch.ones(3),
    "a conversion on the way": lambda x: x.to("cpu", torch.float64) * 2,
    "there and back": lambda x: x.cpu().cuda() + x,
    "to another GPU": lambda x: x.to("cuda:1") + torch.ones(3, device="cuda:1"),
    "ones": lambda x: x + torch.ones(3, device="cuda"),
    "a range": lambda x: x + torch.arange(3, device=x.device),
    "a number": lambda x: x + torch.tensor(1.0, device="cuda"),
    "values": lambda x: x * torch.as_tensor([1.0, 2.0, 3.0], device="cuda"),
    "zeros like it": lambda x: x + torch.zeros_like(x) + x.new_zeros(3),
    "zeros of its size on the host": lambda x: (
        x.cpu() + torch.zeros_like(x, device="cpu") + x.new_ones(3, device="cpu")
    ),
    "a copy into a host tensor": lambda x: torch.empty(3).copy_(x) + 1,
    "a number that the host reads": lambda x: x * torch.tensor(2.0, device="cuda").item(),
}
MODES = ["real", "fake", "symbolic"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_graph_computes_what_the_program_does(gpus, program, mode):
    x = torch.rand(3, device="cuda")
    graph = make_fx(program, tracing_mode=mode)(x)
    other = torch.rand(3, device="cuda")
    expected = program(other)
    for result in (graph(other), Interpreter(graph).run(other)):
        assert result.device == expected.device
        assert torch.equal(result, expected)


@pytest.mark.parametrize("mode", MODES)
def test_the_devices_of_the_program_are_recorded(gpu, mode):
    def program(x):
        return x.cpu() + torch.ones(3, device="cuda").cpu() + torch.rand(3, device="cuda:0").cpu()

    graph = make_fx(program, tracing_mode=mode)(torch.ones(3, device="cuda")).graph
    devices = [str(node.kwargs["device"]) for node in graph.nodes if node.kwargs.get("device") is not None]
    assert devices == ["cpu", "cuda", "cpu", "cuda:0", "cpu"]


def test_a_host_tensor_moves_in_a_graph(gpu):
    graph = make_fx(lambda x: x.pin_memory().to("cuda", non_blocking=True))(torch.ones(3))
    assert torch.equal(graph(torch.zeros(3)), torch.zeros(3, device="cuda"))
    assert [node.name for node in graph.graph.nodes][1] == "_pin_memory"


def test_gradients_are_recorded_through_moves(gpu):
    def gradient(x):
        return torch.autograd.grad(x.cpu().cuda().square().sum(), x)[0]

    graph = make_fx(gradient)(torch.ones(3, device="cuda", requires_grad=True))
    x = torch.rand(3, device="cuda", requires_grad=True)
    assert torch.equal(graph(x), 2 * x)


def test_each_recorded_operator_is_launched_once(gpu):
    x = torch.ones(3, device="cuda")
    calls = gpu.calls_of(lambda: make_fx(lambda x: x + torch.ones(3, device="cuda"))(x))
    assert [call.split()[2] for call in calls if call.startswith("launch")] == ["ones", "add"]


def test_a_graph_that_moves_in_its_kernels_is_as_in_torch(gpu):
    graph = make_fx(lambda x: torch.linalg.pinv(x).double())(torch.eye(3, device="cuda"))
    assert graph(torch.eye(3, device="cuda")).is_cuda


def test_nothing_is_recorded_outside_of_a_trace(gpu):
    seen = []
    make_fx(lambda x: (seen.append(is_recording()), x + 1)[1])(torch.ones(3, device="cuda"))
    assert seen == [True]
    assert not is_recording()
    assert not is_called_by_graph(torch.ops.aten._to_copy.default)


@pytest.mark.parametrize("mode", MODES)
def test_a_copy_from_a_gpu_is_not_recorded_before_autograd(gpu, mode):
    with pytest.raises(NotSimulatedError, match="before autograd"):
        make_fx(lambda x: x.cpu(), tracing_mode=mode, pre_dispatch=True)(torch.ones(3, device="cuda"))
