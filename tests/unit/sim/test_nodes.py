"""Nodes of the autograd graph."""

import weakref

import pytest
import torch

from syncheck.sim.nodes import (
    ThreadLog,
    accumulator_of,
    is_leaf,
    leads_to,
    made_by,
    node_of,
    note_leaves,
    note_streams,
)


@pytest.fixture
def leaf():
    return torch.ones(3, requires_grad=True)


def test_the_node_of_a_leaf_accumulates_its_gradient(leaf):
    made = leaf * 2
    node = accumulator_of(leaf)
    assert is_leaf(node)
    assert not is_leaf(made.grad_fn)
    assert node is node_of(leaf)
    assert made.grad_fn.next_functions[0][0] is node


def test_the_node_is_found_under_no_grad(leaf):
    retained = leaf * 2
    with torch.no_grad():
        assert is_leaf(accumulator_of(leaf))
    del retained


def test_note_leaves_marks_every_leaf_once(leaf):
    others = [torch.ones(3, requires_grad=True) for _ in range(3)]
    retained = [one * 2 for one in (leaf, *others)]
    note_leaves({0: 1})
    note_streams(leaf, {0: 2})
    assert [accumulator_of(one).metadata["syncheck"] for one in (leaf, *others)] == [{0: 1}] * 4
    assert len(retained) == 4


def test_a_view_that_autograd_rejects_has_no_node(leaf):
    views = torch.split(leaf, 1)
    with torch.no_grad():
        leaf.add_(1)  # reading `grad_fn` or `is_leaf` of a view raises an error from here on
    assert [made_by(view) for view in views] == [None] * 3
    note_leaves({0: 1})
    assert accumulator_of(leaf).metadata["syncheck"] == {0: 1}
    log = ThreadLog(made=[weakref.ref(view) for view in views])
    log.tag_nodes()
    with pytest.raises(RuntimeError, match="modified inplace"):
        views[0].sum().backward()


def test_leaves_without_a_node_are_skipped(leaf):
    with torch.inference_mode():
        inference = torch.ones(3, requires_grad=True)
        note_leaves({0: 1})
    retained = leaf * 2
    note_leaves({0: 1})
    assert accumulator_of(leaf).metadata["syncheck"] == {0: 1}
    assert accumulator_of(inference) is None
    del retained


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_leaves_without_a_view_are_skipped(leaf):
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], requires_grad=True)
    sparse = torch.ones(3).to_sparse().requires_grad_()
    retained = leaf * 2
    note_leaves({0: 1})
    for one in (nested, sparse, leaf):
        note_streams(one, {0: 2})
    assert accumulator_of(leaf).metadata["syncheck"] == {0: 1}
    del retained


def test_a_leaf_with_a_new_node_is_marked_again(leaf):
    note_leaves({0: 1})
    retained = leaf * 2
    note_streams(leaf, {0: 2})
    assert accumulator_of(leaf).metadata["syncheck"] == {0: 2}
    del retained


def test_a_view_unknown_to_autograd_has_no_node(leaf):
    made = leaf * 2
    with torch.no_grad():
        view = made.view_as(made)
    assert view.requires_grad
    assert view.grad_fn is None
    assert accumulator_of(view) is None


def test_a_result_leads_to_its_inputs(leaf):
    first = leaf * 2
    second = first + 1
    assert leads_to(second.grad_fn, first.grad_fn)
    assert not leads_to(first.grad_fn, second.grad_fn)


def test_a_gradient_edge_names_its_node(leaf):
    made = leaf * 2
    assert node_of(torch.autograd.graph.get_gradient_edge(made)) is made.grad_fn


def test_tensors_of_other_layouts_have_gradients(gpu):
    sparse = torch.eye(2).to_sparse().requires_grad_()
    (gradient,) = torch.autograd.grad(sparse.to_dense().sum(), sparse)
    assert gradient.to_dense().tolist() == [[1, 0], [0, 1]]


def test_a_tensor_without_a_gradient_raises_torchs_error(gpu):
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="does not require grad"):
        torch.autograd.grad(x.sum(), torch.ones(2))


def test_a_subclass_observes_only_the_programs_operators(gpu):
    seen = []

    class Holding(torch.Tensor):
        @staticmethod
        def __new__(cls, inner):
            made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, requires_grad=True)
            made.inner = inner
            return made

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            seen.append(func)
            return Holding(func(*(arg.inner if isinstance(arg, Holding) else arg for arg in args)).detach())

    leaf = Holding(torch.ones(2))
    made = leaf.sin()
    seen.clear()
    assert is_leaf(node_of(leaf))
    assert node_of(leaf) is made.grad_fn.next_functions[0][0]
    assert seen == []
