"""Parameters that are GPU tensors, judging by the names and uses in a function."""

import ast

import pytest

from syncheck.lint.parameters import assumed_tensor, tensors_given
from tests.unit.lint.program import new_program


def given(source):
    (function,) = ast.parse(source).body
    return [argument.arg for argument in tensors_given(function)]


@pytest.mark.parametrize(
    "annotation",
    ["torch.Tensor", "Tensor", "'torch.Tensor'", "torch.Tensor | None", "Optional[Tensor]", "Optional[torch.Tensor]"],
)
def test_a_parameter_annotated_as_a_tensor_is_one(annotation):
    assert given(f"def f(x: {annotation}, n: int, *, y: {annotation} = None): pass") == ["x", "y"]
    assert given(f"def f(x: list[{annotation}]): pass") == []


@pytest.mark.parametrize(
    "use",
    [
        "x.record_stream(s)",
        "x.view(-1)",
        "y = x.exp()",
        "if x.is_cuda: pass",
        "torch.mm(x, y)",
        "F.relu(x)",
        "dist.all_reduce(x)",
    ],
)
def test_a_parameter_used_as_only_tensors_can_be_is_one(use):
    assert given(f"def f(n, x):\n    {use}") == ["x"]


@pytest.mark.parametrize(
    "use",
    [
        "x.append(1)",
        "torch.zeros(x)",
        "torch.save(x, path)",
        "torch.cat(x)",
        "dist.all_gather(x, y)",
        "g(x)",
        "y.view(x)",
    ],
)
def test_a_parameter_that_may_be_anything_is_not_assumed_to_be_a_tensor(use):
    assert given(f"def f(x):\n    {use}") == []


@pytest.mark.parametrize(
    "use", ["x.cuda()", "x.to(device)", "x.pin_memory()", "x.is_pinned()", "x.numpy()", "x.device"]
)
def test_a_moved_or_device_checked_parameter_is_not_assumed_to_be_on_a_gpu(use):
    assert given(f"def f(x: torch.Tensor):\n    y = x.view(-1)\n    {use}") == []


@pytest.mark.parametrize("name", ["cpu_x", "host_buffer", "pinned"])
def test_a_parameter_named_after_the_host_is_on_the_host(name):
    assert given(f"def f({name}: torch.Tensor): pass") == []


def test_uses_in_a_nested_function_do_not_count():
    assert given("def f(x):\n    def g(x):\n        torch.mm(x, x)") == []
    assert [argument.arg for argument in tensors_given(ast.parse("lambda x: torch.mm(x, x)", mode="eval").body)] == [
        "x"
    ]


def test_an_assumed_tensor_is_on_the_current_gpu_and_stays_alive():
    program = new_program("def f(x): pass\n")
    (argument,) = program.tree.body[0].args.args
    tensor = assumed_tensor(program.machine, argument)
    assert tensor.block.device == program.machine.device
    del tensor
    assert not any(call.startswith("free") for call in program.calls)
