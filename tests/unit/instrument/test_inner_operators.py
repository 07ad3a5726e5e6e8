"""Operators called by other operators under a dispatch mode."""

from contextlib import nullcontext

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from syncheck.instrument.inner_operators import as_without_mode, calls_others, is_traced_in_parts, run_traced_parts
from syncheck.instrument.torch_internals import is_composite, run_parts
from tests.torch_samples import are_alike, comparable_samples, result_of

aten = torch.ops.aten


class Watching(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if is_composite(func):
            with self:
                return as_without_mode(func, run_parts, func, args, kwargs or {})
        if is_traced_in_parts(func):
            with self:
                return run_traced_parts(func, args, kwargs or {})
        if calls_others(func):
            return as_without_mode(func, func, *args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


@torch.library.custom_op("inner_operators::product", mutates_args=())
def product(x: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", enabled=False):
        assert torch.tensordot(x, x, dims=1).dtype == torch.float32
    return (x @ x).clone()


@pytest.mark.parametrize(
    ("operator", "calls"),
    [
        (aten.linalg_pinv.atol_rtol_tensor, True),
        (aten._trilinear.default, False),
        (torch.ops.inner_operators.product.default, True),
        (aten.linalg_vector_norm.default, False),
        (aten.mm.default, False),
    ],
    ids=str,
)
def test_kernels_that_call_other_operators_are_identified(operator, calls):
    assert calls_others(operator) is calls


@pytest.mark.parametrize("context", [nullcontext, torch.inference_mode])
def test_a_program_operator_may_change_autocast_internally(context):
    x = torch.eye(3)
    with context(), torch.autocast("cpu", torch.bfloat16):
        plain = product(x)
        with Watching():
            assert product(x).dtype == plain.dtype == torch.bfloat16


def test_the_callers_state_is_restored():
    x = torch.eye(3)
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16), Watching():
        torch.tensordot(x, x, dims=1)
        assert torch.is_autocast_enabled("cpu")
    assert not torch.is_autocast_enabled("cpu")
    with pytest.raises(RuntimeError, match="contracted"), torch.inference_mode(), Watching():
        torch.tensordot(x, torch.ones(2, 2), dims=1)
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16), Watching():
        assert torch.tensordot(x, x, dims=1).dtype == torch.bfloat16


def test_changes_in_inference_mode_are_recorded_for_autograd():
    x, leaf = torch.ones(3), torch.ones(3, requires_grad=True)
    made = leaf.clone()
    with Watching(), torch.inference_mode():
        x.absolute_()  # a composite operator
        view = made.view_as(made)
    assert x._version == 1
    with pytest.raises(RuntimeError, match="created in inference mode"):
        view.add_(1)


@pytest.mark.filterwarnings("ignore:.*an autograd kernel was not registered")  # torch's advice
def test_an_operator_without_a_derivative_uses_those_of_its_inner_operators():
    x = torch.ones(3, requires_grad=True)
    with torch.library._scoped_library("inner_operators", "FRAGMENT") as library, Watching():
        library.define("tripled(Tensor x) -> Tensor")
        library.impl("tripled", lambda x: x * 3, "CPU")
        torch.ops.inner_operators.tripled(x).sum().backward()
    assert x.grad.tolist() == [3, 3, 3]


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace:DeprecationWarning")
@pytest.mark.parametrize("gradient", [True, False])
def test_a_traced_network_has_the_same_operators_as_without_a_mode(gradient):
    network, x = (
        torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU()).requires_grad_(gradient),
        torch.ones(1, 1, 4, 4),
    )
    plain = torch.jit.trace(network, x)
    with Watching():
        watched = torch.jit.trace(network, x)
    assert [node.kind() for node in watched.inlined_graph.nodes()] == [
        node.kind() for node in plain.inlined_graph.nodes()
    ]
    assert torch.equal(watched(x + 1), plain(x + 1))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("context", [nullcontext, torch.inference_mode])
@pytest.mark.parametrize("autocast", [False, True])
def test_a_mode_changes_no_result_of_torchs_own_samples(context, autocast, operator_table):
    changed, n_compared = set(), 0
    for entry, sample in comparable_samples(operator_table, "cpu", 2):
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast), context():
            first, second = result_of(entry, sample), result_of(entry, sample)
            with Watching():
                watched = result_of(entry, sample)
        if are_alike(first, second):
            n_compared += 1
            if not are_alike(first, watched):
                changed.add(entry.full_name)
    assert changed == set()
    assert n_compared > 1000
