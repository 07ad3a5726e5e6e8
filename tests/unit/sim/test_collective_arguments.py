"""Arguments and results of collectives' operators."""

import re

import pytest
import torch
import torch.distributed as dist

from syncheck.instrument.collectives import plan_of
from syncheck.instrument.plan import tensors_of
from syncheck.instrument.torch_internals import storage_owners
from syncheck.semantics.collectives import FLAT
from syncheck.sim.collective_arguments import (
    borrowed,
    copy_results,
    gloo_arguments,
    group_name,
    pad_tensors,
    padded_size,
    returns_handle,
    work_in,
)

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="this torch has no torch.distributed")
if dist.is_available():
    GATHER = torch.ops.c10d._allgather_base_.default
    SCATTER = torch.ops.c10d._reduce_scatter_base_.default
    REDUCE = torch.ops.c10d.allreduce_.default
    COALESCED = torch.ops.c10d.allgather_into_tensor_coalesced_.default


@pytest.fixture(scope="module")
def group():
    """Return a boxed group of two ranks without a backend, and therefore without a name."""
    group = dist.ProcessGroup(dist.HashStore(), 0, 2)
    return group.boxed()


def adapted(func, *args, has_handle=False, **kwargs):
    return gloo_arguments(plan_of(func), args, kwargs, has_handle=has_handle)


# -- shapes


def test_stacked_and_flat_shapes_are_passed_as_vectors_over_the_same_memory(group):
    output, given = torch.zeros(2, 3, 2), torch.ones(3, 2)
    (to, by, *rest), _ = adapted(GATHER, output, given, group, False, -1)
    assert (to.shape, by.shape, rest) == ((12,), (6,), [group, False, -1])
    to[0] = 7
    assert output[0, 0, 0] == 7


def test_lists_of_tensors_stay_lists(group):
    (outputs, givens, *_), _ = adapted(
        COALESCED, [torch.zeros(2, 2), torch.zeros(4)], [torch.ones(2), torch.ones(2)], group, False
    )
    assert [[tuple(tensor.shape) for tensor in side] for side in (outputs, givens)] == [[(4,), (4,)], [(2,), (2,)]]


@pytest.mark.parametrize(("output", "given", "is_gather"), [(4, 2, True), (2, 4, False)])
def test_the_whole_must_have_the_size_of_all_ranks_parts(group, output, given, is_gather):
    func = GATHER if is_gather else SCATTER
    adapted(func, torch.zeros(output), torch.zeros(given), group)
    with pytest.raises(ValueError, match=re.escape(FLAT[plan_of(func).base])):
        adapted(func, torch.zeros(output + 1), torch.zeros(given), group)


@pytest.mark.parametrize("gap", [0, 1])
def test_noncontiguous_memory_is_rejected(group, gap):
    tensors = [torch.zeros(4), torch.zeros(2)]
    tensors[gap] = torch.zeros(2 * len(tensors[gap]))[::2]
    with pytest.raises(ValueError, match="Tensors must be contiguous"):
        adapted(GATHER, *tensors, group)


def test_other_collectives_keep_shapes_and_strides(group):
    given = torch.zeros(2, 3).t()
    ((tensor,), *_), _ = adapted(REDUCE, [given], group)
    assert (tensor.shape, tensor.stride(), tensor.data_ptr()) == (given.shape, given.stride(), given.data_ptr())


# -- ownership by gloo


def owners(*tensors):
    return [storage_owners(tensor.untyped_storage()) for tensor in tensors]


def test_without_a_handle_gloo_owns_nothing(group):
    output, given = torch.zeros(4), torch.ones(2)
    before = owners(output, given)
    retained = adapted(GATHER, output, given, group)
    assert owners(output, given) == before
    assert [tensor.data_ptr() for tensor in retained[0][:2]] == [output.data_ptr(), given.data_ptr()]


def test_a_handle_owns_its_outputs_but_not_its_inputs(group):
    output, given = torch.zeros(4), torch.ones(2)
    before = owners(output, given)
    retained = adapted(GATHER, output, given, group, has_handle=True)
    assert owners(output, given) == [before[0] + 1, before[1]]
    del retained


def test_a_borrowed_view_covers_the_same_part_of_the_storage():
    whole = torch.arange(6.0)
    part = borrowed(whole[2:5])
    part[0] = 9
    assert whole.tolist() == [0, 1, 9, 3, 4, 5]
    assert part.tolist() == [9, 3, 4]


@pytest.mark.parametrize(
    "tensor", [torch.zeros(0), torch.zeros(2, dtype=torch.complex64).conj(), torch.eye(2).to_sparse()]
)
def test_tensors_that_cannot_be_borrowed_are_passed_unchanged(tensor):
    assert borrowed(tensor) is tensor


SCATTER_LISTS = torch.ops.c10d.scatter_.default if dist.is_available() else None


def test_lists_of_inputs_are_borrowed(group):
    inputs = [[torch.ones(2), torch.ones(2)]]
    before = owners(*inputs[0])
    (_, given, *_), _ = adapted(SCATTER_LISTS, [torch.zeros(2)], inputs, group, has_handle=True)
    assert [tensor.tolist() for tensor in given[0]] == [[1, 1], [1, 1]]
    assert owners(*inputs[0]) == before


def test_keyword_inputs_are_borrowed_without_changing_the_programs_mapping():
    given = torch.ones(2)
    kwargs = {"input_tensors": [[given]], "other": 1}
    _, changed = gloo_arguments(plan_of(SCATTER_LISTS), ([torch.zeros(2)],), kwargs, has_handle=True)
    assert changed["input_tensors"][0][0] is not given
    assert kwargs["input_tensors"][0][0] is given
    assert changed["other"] == 1


def test_sent_tensors_are_copied_but_received_ones_are_not(group):
    tensors = [torch.ones(2)]
    (sent, *_), _ = adapted(torch.ops.c10d.send.default, tensors, group, 1, 0, has_handle=True)
    (received, *_), _ = adapted(torch.ops.c10d.recv_.default, tensors, group, 1, 0, has_handle=True)
    assert sent[0].data_ptr() != tensors[0].data_ptr()
    assert received[0] is tensors[0]


def test_a_none_input_stays_none(group):
    (_, given), _ = gloo_arguments(plan_of(SCATTER_LISTS), ([torch.zeros(2)], None), {}, has_handle=True)
    assert given is None


# -- handles and groups


@pytest.mark.parametrize(("value", "expected"), [(True, True), (False, False)])
def test_a_handle_is_requested_by_a_parameter(group, value, expected):
    names = [argument.name for argument in GATHER._schema.arguments]
    name = next(name for name in names if name in {"async_op", "asyncOp"})
    assert returns_handle(GATHER, (), {name: value}) is expected
    args = tuple(value if other == name else None for other in names)
    assert returns_handle(GATHER, args, {}) is expected


def test_sending_always_returns_a_handle():
    assert returns_handle(torch.ops.c10d.send.default, (), {}) is True


def test_a_group_is_found_among_other_cpp_objects(group):
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        named = dist.group.WORLD
        assert named.group_name
        assert group_name(([torch.zeros(1)], dist.Work().boxed(), group, named.boxed())) == named.group_name
    finally:
        dist.destroy_process_group()


def test_arguments_without_a_group_have_no_name():
    assert group_name(([torch.zeros(1)], 3, None)) == ""


def test_an_unnamed_group_has_no_name(group):
    assert group_name((group,)) == ""


def test_a_handle_is_the_result_or_its_last_element():
    work = dist.Work()
    assert work_in(work.boxed()) is work
    assert work_in(([torch.zeros(1)], work.boxed())) is work


def test_tensors_of_different_sizes_are_gathered_in_equal_ones(group):
    plan = plan_of(torch.ops.c10d.allgather_.default)
    outputs = [[torch.zeros(2), torch.zeros(3, 1)]]
    args = (outputs, [torch.ones(2)], group)
    assert padded_size(plan, args) == 3
    given, named = pad_tensors(plan, args, {}, 3)
    assert [tensor.tolist() for tensor in (*given[0][0], *given[1])] == [[0, 0, 0], [0, 0, 0], [1, 1, 0]]
    given[0][0][0].copy_(torch.tensor([1.0, 2, 0]))
    given[0][0][1].copy_(torch.tensor([3.0, 4, 5]))
    copy_results(plan, given, named, tensors_of(plan, args, {}))
    assert [tensor.tolist() for tensor in outputs[0]] == [[1, 2], [[3], [4], [5]]]


def test_tensors_of_equal_sizes_are_gathered_as_they_are(group):
    plan = plan_of(torch.ops.c10d.allgather_.default)
    assert padded_size(plan, ([[torch.zeros(2), torch.zeros(2)]], [torch.ones(2)], group)) == 0
    assert padded_size(plan_of(GATHER), (torch.zeros(4), torch.zeros(2), group)) == 0
