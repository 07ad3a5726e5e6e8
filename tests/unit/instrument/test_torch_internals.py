"""Torch's private names, which a new version of torch may change."""

import pytest
import torch

from syncheck.instrument import torch_internals as internals


def test_storages_are_distinguished_by_identity():
    x = torch.ones(4)
    assert internals.storage_key(x.untyped_storage()) == internals.storage_key(x[1:].untyped_storage())
    assert internals.storage_key(x.untyped_storage()) != internals.storage_key(torch.ones(4).untyped_storage())
    assert internals.has_storage(x)
    assert internals.data_ptr(x) == x.data_ptr()
    assert not internals.is_contiguous(torch.ones(2, 2).t())


@pytest.mark.filterwarnings("ignore:Sparse")
def test_parts_of_sparse_and_zero_tensors():
    indices, values = internals.sparse_parts(torch.eye(2).to_sparse())
    assert (indices.shape, values.shape) == ((2, 2), (2,))
    rows, columns, values = internals.sparse_parts(torch.eye(2).to_sparse_csr())
    assert (rows.tolist(), columns.tolist(), values.tolist()) == ([0, 1, 2], [0, 1], [1, 1])
    columns, rows, values = internals.sparse_parts(torch.tensor([[0.0, 5], [0, 0]]).to_sparse_csc())
    assert (columns.tolist(), rows.tolist(), values.tolist()) == ([0, 0, 1], [0], [5])
    assert len(internals.sparse_parts(torch.eye(4).to_sparse_bsr((2, 2)))) == 3
    assert internals.sparse_parts(torch.eye(2)) == []
    assert internals.is_zero_tensor(torch._efficientzerotensor(2))
    assert not internals.is_zero_tensor(torch.zeros(2))


def test_the_current_node_is_known_in_a_backward_pass():
    seen = []
    x = torch.ones(1, requires_grad=True)
    y = x.sin()
    y.register_hook(lambda gradient: seen.append(internals.current_node()))
    assert internals.current_node() is None
    y.backward()
    assert internals.sequence_number(y.grad_fn) < internals.next_sequence_number()
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("operator", "composite"),
    [(torch.ops.aten.item.default, True), (torch.ops.aten.linear.default, True), (torch.ops.aten.add.Tensor, False)],
    ids=str,
)
def test_composite_operators_are_identified(operator, composite):
    assert internals.is_composite(operator) is composite
    assert not internals.is_composite(object())


def test_schemas_and_modes():
    assert internals.schema_of(torch.ops.aten.add.Tensor).name == "aten::add"
    assert internals.current_dispatch_modes() == []
    assert callable(internals.engine())
    assert internals.is_in_bad_fork() is False


def test_every_operator_accepts_numbers_in_place_of_tensors():
    aten = torch.ops.aten
    assert internals.call_with_numbers(aten.view.default, (2, [1]), {}).tolist() == [2]
    assert internals.call_with_numbers(aten.equal.default, (2, 2), {})
    assert (
        internals.call_with_numbers(aten.mul.Tensor, (2, 1.5), {}).dtype == torch.float32
    )  # a number promotes nothing
    assert internals.call_with_numbers(aten.full.default, ([2], 1.5), {"dtype": torch.half}).tolist() == [1.5, 1.5]
    with pytest.raises(RuntimeError, match="shape"):
        internals.call_with_numbers(aten.view.default, (2, [3]), {})


def test_torchscript_only_operators_have_no_kernel():
    assert not internals.has_kernel(torch.ops.prim.device.default, "CPU")
    assert not internals.is_composite(torch.ops.prim.device.default)
    assert internals.has_kernel(torch.ops.aten.add.Tensor, "CPU")


def test_numbers_are_replaced_by_tensors():
    aten = torch.ops.aten
    with pytest.raises(RuntimeError) as refused:
        aten.view.default(2, [1])
    (tensor, size) = internals.with_tensors(aten.view.default, (2, [1]), refused.value)
    assert (tensor.tolist(), size) == (2, [1])
    assert internals.with_tensors(aten.view.default, (torch.ones(1), [1]), refused.value) is None
    assert internals.with_tensors(torch.ops.higher_order.cond, (2,), refused.value) is None


def test_an_operator_that_fails_for_another_reason_keeps_its_numbers():
    args = (torch.tensor([True]), True)
    with pytest.raises(RuntimeError, match="not supported") as failed:
        torch.ops.aten.sub.Tensor(*args)
    assert internals.with_tensors(torch.ops.aten.sub.Tensor, args, failed.value) is None
