"""Metadata of an operator's results, computed without values."""

import pytest
import torch

from syncheck.instrument.plan import plan_of
from syncheck.sim.shapes import CannotDeferError, results_of

aten = torch.ops.aten


def results(operator, *args, **kwargs):
    return results_of(operator, plan_of(operator), args, kwargs)


def test_a_new_result_is_on_the_meta_device():
    made = results(aten.mm.default, torch.ones(2, 3), torch.ones(3, 4))
    assert (made.device.type, made.shape) == ("meta", (2, 4))


def test_a_returned_argument_is_the_argument_itself():
    x = torch.ones(3)
    assert results(aten.add_.Tensor, x, x) is x
    assert results(aten.mul.out, torch.ones(3), torch.ones(3), out=x) is x


def test_an_operator_may_return_nothing():
    assert results(aten._foreach_add_.Scalar, [torch.ones(3)], 1.0) in (None, ())


def test_several_results():
    values, indices = results(aten.max.dim, torch.ones(2, 3), 1)
    assert (values.dtype, indices.dtype) == (torch.float32, torch.int64)


def test_random_operators_need_no_generator():
    made = results(aten.rand.default, [4], device=torch.device("cpu"), generator=torch.Generator())
    assert made.shape == (4,)


@pytest.mark.parametrize("operator", [aten.nonzero.default, aten.bincount.default])
def test_a_result_with_a_data_dependent_size_cannot_be_deferred(operator):
    with pytest.raises(CannotDeferError):
        results(operator, torch.ones(3, dtype=torch.int64))


def test_wrong_arguments_are_left_to_the_operator_itself():
    with pytest.raises(CannotDeferError):
        results(aten.mm.default, torch.ones(2, 3), torch.ones(2, 3))
