"""Parameters of functions that time work on a GPU."""

import ast
import textwrap

import pytest

from syncheck.lint.gpu_parameters import moved_parameters
from tests.unit.lint.checking import TIMED

CALLED = (
    TIMED.format(work="y = model(x)")
    + """
def main(device, args):
    net = Net()
    {net}
    data = {data}
    {call}

using = torch.cuda.is_available()
"""
)
PARTS = {"net": "net.cuda()", "data": "torch.ones(4).to(device)", "call": "bench(net, data, 10)"}


def parsed(source):
    source = textwrap.dedent(source)
    tree = ast.parse(source)
    function = next(node for node in ast.walk(tree) if getattr(node, "name", "") == "bench")
    return function, tree, source


def moved(**given):
    return set(moved_parameters(*parsed(CALLED.format(**PARTS | given))))


def test_all_calls_show_what_is_on_a_gpu():
    assert moved() == {"model", "x"}


@pytest.mark.parametrize(
    "given",
    [
        {"net": "net = net.to('cuda')"}, {"net": "net = net.to(device=args.device)"}, {"net": "net.to(self.device)"},
        {"net": "net.to(self.torch_device)"},
        {"call": "bench(Net().cuda(), torch.ones(4, device=device), 1)"}, {"call": "bench(x=data, model=net, n=2)"},
        {"call": "bench(net, data, 1); bench(net, data, n=2)"},
    ],
)  # fmt: skip
def test_something_is_moved_in_many_ways(given):
    assert moved(**given) == {"model", "x"}


@pytest.mark.parametrize(
    "given",
    [
        {"data": "torch.ones(4)"}, {"data": "torch.ones(4).to(torch.half)"}, {"data": "torch.ones(4).to(device).cpu()"},
        {"call": "bench(net, torch.ones(4), 1)"}, {"call": "bench(net, data, 1); bench(net, other, 1)"},
        {"call": "bench(net, n=1)"}, {"data": "torch.ones(4).to(device())"},
    ],
)  # fmt: skip
def test_one_argument_may_be_on_the_host(given):
    assert moved(**given) == {"model"}


@pytest.mark.parametrize("call", ["pass", "bench(*args)", "bench(**args)"])
def test_without_calls_the_parameters_are_unknown(call):
    assert moved(call=call) == set()


def test_a_file_that_never_mentions_cuda_uses_no_gpu():
    assert moved_parameters(*parsed(CALLED.format(**PARTS).replace("cuda", "cpu"))) == frozenset()


def test_who_measures_the_memory_of_a_gpu_computes_there():
    work = "y = model(x, mask=n); z = other(y); torch.cuda.max_memory_allocated()"
    assert moved_parameters(*parsed(TIMED.format(work=work))) == {"model", "x", "n"}
    assert moved_parameters(*parsed(TIMED.format(work="y = run(x); torch.cuda.max_memory_allocated()"))) == frozenset()


def test_a_method_has_bound_its_object():
    body = "return model(x), time.time() - time.time()"
    source = f"class A:\n    def bench(self, x): {body}\n    def run(self): self.bench(torch.ones(4).cuda())\n"
    assert moved_parameters(*parsed(source)) == {"x"}


@pytest.mark.parametrize("moved", ['model = model.to("cpu")', "model = model.cpu()", 'model.to(torch.device("cpu"))'])
def test_a_function_that_moves_a_parameter_to_the_host_works_there(moved):
    source = TIMED.format(work=f"{moved}; y = model(x); torch.cuda.max_memory_allocated()")
    assert "model" not in moved_parameters(*parsed(source))
