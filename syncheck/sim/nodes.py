"""Nodes of autograd's graph, and the ways between them."""

from typing import Any

import torch

from syncheck.instrument.torch_internals import C, SetExcludeDispatchKeyGuard, functorch, sequence_number

_AUTOGRAD = C.DispatchKey.AutogradFunctionality
_LEAF = (1 << 64) - 1  # sequence number of AccumulateGrad nodes
_MOST_STEPS = 32
"""Nodes to look at for a way between two; longer ways lead through nodes that launch something."""


def leads_to(start: Any, node: Any) -> bool:
    """Return whether a node's gradients come, by way of others, from another one; a few steps are looked at."""
    seen, front = {start}, [start]
    while front and len(seen) < _MOST_STEPS:
        for follower, _ in front.pop().next_functions:
            if follower is node:
                return True
            if follower is not None and follower not in seen and not is_leaf(follower):
                seen.add(follower)
                front.append(follower)
    return False


def node_of(value: Any) -> Any:
    """Return the node that gets the gradient of a tensor, or of a gradient edge; None for a wrapper of `torch.func`."""
    if not isinstance(value, torch.Tensor):
        return value.node
    if functorch.is_functorch_wrapped_tensor(value):
        return value.grad_fn
    with SetExcludeDispatchKeyGuard(_AUTOGRAD, False):
        return torch.autograd.graph.get_gradient_edge(value).node


def accumulator_of(leaf: torch.Tensor) -> Any:
    """Return the node that adds up a leaf's gradient; None for a view that autograd did not see being made.

    Such a view says that it needs a gradient if its base does, and has no node: tensors inside of a `DTensor` are.

    Source:
        torch/csrc/autograd/variable.h, `DifferentiableViewMeta::requires_grad`; torch/autograd/graph.py,
        `get_gradient_edge`.
    """
    if functorch.is_functorch_wrapped_tensor(leaf):
        return leaf.grad_fn
    with SetExcludeDispatchKeyGuard(_AUTOGRAD, False), torch.enable_grad():
        node: Any = leaf.view_as(leaf).grad_fn
        return node.next_functions[0][0]


def is_leaf(node: Any) -> bool:
    """Return whether a node adds up the gradient of a leaf."""
    return sequence_number(node) == _LEAF
