"""Operators in which the host waits."""

import pytest
import torch

from syncheck.instrument.plan import plan_of
from syncheck.instrument.tensor_facts import TorchFacts
from syncheck.semantics.waits import HostWait, host_wait

X = torch.ones(4, 4)
MASK = X > 0
INDEX = torch.tensor([0, 1])
NUMBER = torch.tensor(2.0)
HOST_NUMBER, HOST_INDEX, HOST_MASK = HOST_TENSORS = torch.tensor(3.0), torch.tensor([0]), X > 1
aten = torch.ops.aten


def wait(func, *args, **kwargs):
    facts = TorchFacts(lambda tensor: all(tensor is not own for own in HOST_TENSORS))
    return host_wait(plan_of(func).base, args, kwargs, facts)


@pytest.mark.parametrize(
    ("func", "args", "kwargs"),
    [
        (aten.nonzero.default, (X,), {}),
        (aten.index.Tensor, (X, [MASK]), {}),
        (aten.index_put_.default, (X, [MASK], X), {}),
        (aten.index_put_.default, (X, [MASK], NUMBER), {}),
        (aten.masked_fill.Tensor, (X, MASK, NUMBER), {}),
        (aten.masked_fill_.Tensor, (X, MASK, NUMBER), {}),
        (aten.index_fill.int_Tensor, (X, 0, INDEX, NUMBER), {}),
        (aten.linspace.Tensor_Tensor, (HOST_NUMBER, NUMBER, 3), {}),
        (aten.normal.Tensor_Tensor, (X, X), {}),
        (aten.index_put_.default, (X, [MASK], HOST_NUMBER, True), {}),
        (aten.index_put_.default, (X, [INDEX > 0, INDEX], HOST_NUMBER), {}),
        (aten.index.Tensor, (X, [HOST_INDEX]), {}),
        (aten.linspace.Tensor_Scalar_out, (NUMBER, 2.0, 3), {"out": X}),
        (aten.repeat_interleave.Tensor, (INDEX,), {}),
        (aten.repeat_interleave.self_Tensor, (X, INDEX), {}),
        (aten.histc.default, (X,), {}),
        (aten.histc.default, (X, 100, 2, 2), {}),
    ],
)
def test_the_host_waits_before_a_kernel_for_a_size_or_a_number_on_the_gpu(func, args, kwargs):
    assert wait(func, *args, **kwargs) is HostWait.BEFORE


@pytest.mark.parametrize("func", [aten.equal.default, aten.allclose.default])
def test_the_host_waits_after_the_kernel_for_its_values(func):
    assert wait(func, X, X) is HostWait.AFTER


@pytest.mark.parametrize(
    ("func", "args", "kwargs"),
    [
        (aten.add.Tensor, (X, X), {}),
        (aten.index.Tensor, (X, [None, INDEX]), {}),
        (aten.index_put_.default, (X, [INDEX], NUMBER), {}),
        (aten.index_put_.default, (X, [MASK], HOST_NUMBER), {}),
        (aten.masked_fill.Tensor, (X, MASK, HOST_NUMBER), {}),
        (aten.masked_fill.Scalar, (X, MASK, 2.0), {}),
        (aten.linspace.Tensor_Scalar, (HOST_NUMBER, 2.0, 3), {}),
        (aten.index_put.default, (X, [MASK], HOST_NUMBER), {}),
        (aten.index.Tensor, (X, [HOST_MASK]), {}),
        (aten.repeat_interleave.Tensor, (INDEX,), {"output_size": 3}),
        (aten.repeat_interleave.self_int, (X, 2), {}),
        (aten.histc.default, (X, 100, -5, 5), {}),
        (aten.histc.default, (X, 100), {"min": 0, "max": 1}),
    ],
)
def test_the_host_does_not_wait_for_known_values(func, args, kwargs):
    assert wait(func, *args, **kwargs) is HostWait.NEVER
