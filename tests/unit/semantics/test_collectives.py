"""Collectives: names, reads and writes, and when the host waits for one."""

import inspect

import pytest
import torch

from syncheck.semantics import collectives
from syncheck.semantics.collectives import FUNCTIONS, as_called, collective_name, makes_host_wait

distributed = pytest.importorskip("torch.distributed")
if not distributed.is_available():
    pytest.skip("this torch has no torch.distributed", allow_module_level=True)


@pytest.mark.parametrize(
    ("operator", "name"),
    [
        ("c10d::allreduce_", "all_reduce"),
        ("c10d::_allgather_base_", "all_gather_into_tensor"),
        ("c10d::broadcast_", "broadcast"),
        ("c10d::barrier", "barrier"),
        ("c10d::send", "isend"),
        ("c10d::recv_any_source_", "irecv"),
        ("_c10d_functional::all_reduce", "all_reduce"),
        ("aten::broadcast_", ""),
        ("allreduce_", ""),
        ("", ""),
    ],
)
def test_an_operator_is_named_after_the_public_function(operator, name):
    assert collective_name(operator) == name


def test_a_function_is_called_by_the_name_that_the_program_uses():
    text = "the result of `all_gather_into_tensor` is used before its `wait()`"
    assert as_called(text, ["dist.all_gather_single(x, y)"]) == text.replace("into_tensor", "single")
    assert as_called(text, ["dist.all_gather_into_tensor(x, y)"]) == text


IN_TORCH = [name for name in FUNCTIONS if hasattr(distributed, name) or not name.endswith("_single")]
"""Torch has some names only since 2.13."""


@pytest.mark.parametrize("name", IN_TORCH)
def test_each_function_exists_in_torch_with_these_parameters(name):
    parameters = list(inspect.signature(getattr(distributed, name)).parameters)
    for position, parameter in (*FUNCTIONS[name].writes, *FUNCTIONS[name].reads):
        assert parameters[position] == parameter


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_function_calls_an_operator_that_torch_has(name):
    operator = FUNCTIONS[name].operator
    assert hasattr(torch.ops.c10d, operator.removeprefix("c10d::"))
    known = as_called(collective_name(operator), [name])  # `send` and `isend` share an operator
    assert known in {name, f"i{name}"}


@pytest.mark.parametrize("names", [collectives.WRITING, collectives.READING, collectives.POINT_TO_POINT])
def test_operators_exist_in_torch_and_take_tensors(names):
    for name in names:
        schema = getattr(torch.ops.c10d, name).default._schema
        assert "tensors" in [argument.name for argument in schema.arguments]


@pytest.mark.parametrize(("operator", "argument"), collectives.EQUAL_ARGUMENTS.items())
def test_an_argument_that_must_be_equal_exists(operator, argument):
    schema = getattr(torch.ops.c10d, operator).default._schema
    assert argument in [found.name for found in schema.arguments]


@pytest.mark.parametrize(
    ("args", "kwargs", "waits"),
    [
        ((), {}, False),
        ((None,), {}, False),
        ((5.0,), {}, True),
        ((), {"timeout": 5.0}, True),
        ((), {"timeout": None}, False),
    ],
)
def test_a_timeout_makes_the_host_wait(monkeypatch, args, kwargs, waits):
    for name in ("TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT"):
        monkeypatch.delenv(name, raising=False)
    assert makes_host_wait(args, kwargs) is waits


@pytest.mark.parametrize("name", ["TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT"])
@pytest.mark.parametrize(("value", "waits"), [("1", True), ("true", True), ("Yes", True), ("0", False), ("", False)])
def test_the_environment_may_make_the_host_wait(monkeypatch, name, value, waits):
    monkeypatch.setenv(name, value)
    assert makes_host_wait((), {}) is waits
