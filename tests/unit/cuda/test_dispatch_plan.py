"""Dispatch plan fields that the hot path needs."""

import pytest
import torch

from syncheck.cuda.dispatch_plan import DispatchPlan, HigherOrder, is_silent
from syncheck.instrument.plan import plan_of

aten = torch.ops.aten


def dispatch(operator, special=None):
    return DispatchPlan(operator, plan_of(operator), special)


def test_only_accessed_arguments_are_planned():
    assert dispatch(aten.add_.Tensor).arguments == ((0, "self", False, True), (1, "other", False, False))
    assert dispatch(aten.zeros_like.default).arguments == ()
    assert dispatch(aten.view.default).arguments == ()
    assert dispatch(aten.cat.default).arguments == ((0, "tensors", True, False),)


@pytest.mark.parametrize(
    ("operator", "fresh", "flat", "seen"),
    [
        (aten.add.Tensor, True, False, True),
        (aten.add_.Tensor, False, False, True),
        (aten.empty.memory_format, True, False, True),
        (aten.view.default, False, False, False),
        (aten.max.dim, True, True, True),
        (aten.unbind_copy.int, True, True, True),
        (aten.unsafe_split.Tensor, False, True, False),
        (aten.nonzero.default, True, False, True),
    ],
    ids=str,
)  # fmt: skip
def test_results_are_classified_as_fresh_flat_or_seen(operator, fresh, flat, seen):
    made = dispatch(operator)
    assert (made.fresh, made.is_flat, made.is_seen) == (fresh, flat, seen)


@pytest.mark.parametrize(
    ("operator", "silent"),
    [
        (aten.mm.default, True),
        (aten.add.Tensor, True),
        (aten._foreach_mul_.Scalar, True),
        (aten.nonzero.default, False),
        (aten.masked_fill.Tensor, False),
        (aten.masked_fill.Scalar, True),
        (aten.index.Tensor, False),
    ],
    ids=str,
)  # fmt: skip
def test_operators_that_neither_order_nor_wait_are_silent(operator, silent):
    assert is_silent(operator) is silent
    assert dispatch(operator).listens is not silent


def test_views_need_no_listener_but_value_reads_do():
    assert not dispatch(aten.view.default).listens
    item = dispatch(aten._local_scalar_dense.default)
    assert (item.is_item, item.listens) == (True, True)
    assert dispatch(aten.linear.default).is_composite
    assert dispatch(aten.view.default, special=("a", "b")).is_seen


def test_a_higher_order_operator_is_decomposed():
    made = HigherOrder(torch.cond)
    assert made.call is torch.cond
    assert (made.listens, made.is_seen, made.plan) == (True, False, None)
