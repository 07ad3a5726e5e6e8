"""An operator's reads and writes, derived from its schema."""

import pytest
import torch

from syncheck.instrument.plan import dtype_name, plan_of, tensors_in, tensors_of, unique

aten = torch.ops.aten


def touched(operator):
    return [(a.name, "r" * a.is_read + "w" * a.is_write) for a in plan_of(operator).tensors]


@pytest.mark.parametrize(
    ("operator", "arguments"),
    [
        (aten.add.Tensor, [("self", "r"), ("other", "r")]),
        (aten.add_.Tensor, [("self", "rw"), ("other", "r")]),
        (aten.add.out, [("self", "r"), ("other", "r"), ("out", "rw")]),
        (aten.zeros_like.default, [("self", "")]),
        (
            aten.native_batch_norm.default,
            [("input", "r"), ("weight", "r"), ("bias", "r"), ("running_mean", "rw"), ("running_var", "rw")],
        ),
    ],
    ids=str,
)
def test_reads_and_writes_follow_from_the_schema(operator, arguments):
    assert touched(operator) == arguments


@pytest.mark.parametrize(
    ("operator", "touches"),
    [
        (aten.view.default, False),
        (aten.detach.default, False),
        (aten.empty.memory_format, False),
        (aten.add.Tensor, True),
        (aten.t.default, False),
    ],
    ids=str,
)
def test_views_and_metadata_access_nothing(operator, touches):
    plan = plan_of(operator)
    assert (plan.touches, plan.writes_outputs) == (touches, touches)


def test_plans_record_other_properties():
    assert plan_of(aten.nonzero.default).synchronizes
    assert not plan_of(aten.add.Tensor).synchronizes
    assert plan_of(aten.native_dropout.default).random
    assert plan_of(aten.uniform_.default).has_generator
    assert plan_of(aten.zeros.default).has_device
    assert (plan_of(aten.add.Tensor).name, plan_of(aten.add.Tensor).base) == ("aten::add", "add")


def test_a_write_subsumes_a_read_of_the_same_bytes():
    assert unique([(1, 2, False), (1, 3, False), (1, 2, True), (1, 2, False)]) == [(1, 2, True), (1, 3, False)]


def test_tensors_are_found_by_position_by_name_and_in_lists():
    x, y, z = (torch.ones(1) for _ in range(3))
    found = tensors_of(plan_of(aten.add.out), (x, y), {"out": z})
    assert [(t is w, a.name) for (t, a), w in zip(found, (x, y, z), strict=True)] == [
        (True, "self"),
        (True, "other"),
        (True, "out"),
    ]
    assert len(tensors_of(plan_of(aten.cat.default), ([x, y, z],), {})) == 3
    assert len(tensors_of(plan_of(aten.index.Tensor), (x, [None, y]), {})) == 2
    assert len(tensors_of(plan_of(aten.add.Tensor), (x, 2), {})) == 1


def test_tensors_in_results_are_found():
    x = torch.ones(1)
    assert len(tensors_in((x, [x, (x,)], 3, None))) == 3
    assert tensors_in(None) == []
    assert dtype_name(torch.float32) == "float32"
