"""Arguments assumed for a function that is followed separately."""

import ast

from syncheck.lint.assumed_arguments import assumed_arguments, has_defaults, has_self_parameter, reuse_memory
from syncheck.lint.interp.values import Function
from tests.unit.lint.program import follow


def given_to(source):
    program = follow(source)
    function = program.scope.find("f")
    start = len(program.calls)
    return assumed_arguments(program.machine, function), list(program.calls)[start:]


def test_a_device_parameter_is_the_default_device():
    found, calls = given_to("def f(x, device='cuda:1', kind='cpu', *, dev=torch.device('cuda')): pass")
    assert (set(found), calls) == ({"device", "dev"}, [])


SIDE = "def f(x: torch.Tensor, y, n):\n    with torch.cuda.stream(s):\n        {body}\n"


def test_parameters_used_on_a_side_stream_are_complete_gpu_tensors():
    found, calls = given_to(SIDE.format(body="z = x @ y"))
    assert set(found) == {"x", "y"}
    assert calls[-1] == "all complete"
    assert all(tensor.is_argument for tensor in found.values())


def test_without_streams_tensor_parameters_are_unknown():
    assert given_to("def f(x: torch.Tensor):\n    return x + 1\n") == ({}, [])


def test_a_parameter_that_the_function_moves_may_be_anywhere():
    assert set(given_to(SIDE.format(body="z = x.cuda() + y"))[0]) == set()


def test_a_caller_reuses_memory_only_after_work_on_a_side_stream():
    program = follow("a = 1")
    for source, n_made in ((SIDE.format(body="pass"), 1), ("def f(): pass", 0)):
        before = len(program.calls)
        reuse_memory(program.machine, ast.parse(source).body[0])
        assert sum("launch" in call for call in list(program.calls)[before:]) == n_made


def test_methods_and_defaults_are_recognized():
    (method, helper) = ast.parse("def f(self, a=1): pass\ndef g(x): pass").body
    assert has_self_parameter(Function(method, None))
    assert not has_self_parameter(Function(helper, None))
    assert has_defaults(method)
    assert not has_defaults(helper)
