"""Nodes of autograd's graph."""

import pytest
import torch

from syncheck.sim.nodes import accumulator_of, is_leaf, leads_to, node_of


@pytest.fixture
def leaf():
    return torch.ones(3, requires_grad=True)


def test_the_node_of_a_leaf_adds_up_its_gradient(leaf):
    made = leaf * 2
    node = accumulator_of(leaf)
    assert is_leaf(node)
    assert not is_leaf(made.grad_fn)
    assert node is node_of(leaf)
    assert made.grad_fn.next_functions[0][0] is node


def test_the_node_is_found_while_no_gradients_are_asked_for(leaf):
    kept = leaf * 2
    with torch.no_grad():
        assert is_leaf(accumulator_of(leaf))
    del kept


def test_a_view_that_autograd_has_not_seen_has_no_node(leaf):
    made = leaf * 2
    with torch.no_grad():
        view = made.view_as(made)
    assert view.requires_grad
    assert view.grad_fn is None
    assert accumulator_of(view) is None


def test_a_way_leads_from_a_result_to_what_it_is_made_of(leaf):
    first = leaf * 2
    second = first + 1
    assert leads_to(second.grad_fn, first.grad_fn)
    assert not leads_to(first.grad_fn, second.grad_fn)


def test_a_gradient_edge_names_its_node(leaf):
    made = leaf * 2
    assert node_of(torch.autograd.graph.get_gradient_edge(made)) is made.grad_fn
