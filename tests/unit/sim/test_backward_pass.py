"""State of a backward pass: the streams of the gradients that it starts from."""

import torch

from syncheck.sim.backward_pass import BackwardPass, ThreadGradients
from syncheck.sim.nodes import node_of, note_streams


def begun(*roots):
    state = BackwardPass(caller={0: 5, 1: 6}, saved={}, saved_device=0)
    state.note_roots(roots)
    return state


def test_the_first_gradient_comes_from_the_callers_stream_of_its_device():
    x = torch.ones(2, requires_grad=True)
    first, second = x.sum(), (x * 2).sum()
    state = begun((first, 0), (second, 1))
    assert state.arrived == {node_of(first): {5}, node_of(second): {6}}
    assert not state.arrived_leaves


def test_a_leaf_can_be_the_root():
    x = torch.ones((), requires_grad=True)
    state = begun((x, 1))
    assert (state.arrived, list(state.arrived_leaves.values())) == ({}, [{6}])


def test_roots_on_the_host_and_without_a_node_have_no_stream():
    x = torch.ones(2, requires_grad=True)
    state = begun((x.sum(), -1), (torch.ones(()), 0))
    assert (state.arrived, state.arrived_leaves) == ({}, {})


def test_a_leaf_has_the_streams_of_the_first_node_that_uses_it():
    x = torch.ones(2, requires_grad=True)
    first, second = x * 2, x * 3
    leaf = node_of(x)
    state = begun()
    assert state.streams_of_leaf(leaf) == {}
    for made, streams in ((second, {0: 7}), (first, {0: 8}), (second, {0: 7})):
        state.note_use(leaf, made.grad_fn, streams)
    assert state.streams_of_leaf(leaf) == {0: 8}


def test_recorded_streams_of_a_leaf_take_precedence():
    x = torch.ones(2, requires_grad=True)
    made = x * 2
    leaf = note_streams(x, {})
    state = begun()
    state.note_use(leaf, made.grad_fn, {0: 7})
    assert state.streams_of_leaf(leaf) == {}


def test_a_thread_begins_outside_of_any_pass():
    assert (ThreadGradients().run, ThreadGradients().log) == (None, None)
