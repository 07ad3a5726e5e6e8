"""Nodes of the autograd graph: paths between them, and the streams on which they were created."""

import weakref
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any

import torch

from syncheck.hb.ids import StreamId
from syncheck.instrument.living_tensors import living_tensors
from syncheck.instrument.torch_internals import (
    C,
    DisableTorchDispatch,
    SetExcludeDispatchKeyGuard,
    disable_dispatch_modes,
    functorch,
    sequence_number,
)

_AUTOGRAD = C.DispatchKey.AutogradFunctionality
_LEAF = (1 << 64) - 1  # sequence number of AccumulateGrad nodes
_MAX_STEPS = 32
"""Limit on the nodes visited to find a path between two. Longer paths contain nodes that launch something."""


@dataclass(slots=True)
class ThreadLog:
    """The current streams of one thread at the creation of nodes, by sequence number.

    Attributes:
        numbers: the sequence numbers at which the current streams changed, in ascending order.
        streams: the current streams from each of these numbers on.
        made: the results of the thread's last operator, whose nodes exist only after it has returned.
    """

    numbers: list[int] = field(default_factory=list)
    streams: list[dict[int, StreamId]] = field(default_factory=list)
    made: list["weakref.ref[torch.Tensor]"] = field(default_factory=list)

    def tag_nodes(self) -> None:
        """Record in the nodes of the last results that this thread created them, which sequence numbers do not tell."""
        for reference in self.made:
            tensor = reference()
            node = made_by(tensor) if tensor is not None else None
            if node is not None:
                node.metadata.setdefault("syncheck log", self)
        self.made.clear()

    def at(self, number: int) -> dict[int, StreamId]:
        """Return the streams that were current when the node with this sequence number was created."""
        index = bisect_right(self.numbers, number) - 1
        return self.streams[index] if index >= 0 else {}


def made_by(tensor: torch.Tensor) -> Any:
    """Return the node that computes a tensor, or None if there is none or torch refuses to return it.

    Reading `grad_fn` or `is_leaf` of one of several views raises an error after its base has been modified in place,
    although the program may never use the view again.

    Source:
        torch/csrc/autograd/variable.cpp, `handle_view_on_rebase`.
    """
    try:
        return tensor.grad_fn
    except RuntimeError:
        return None


def is_leaf_tensor(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is a leaf; False if torch refuses to tell, see `made_by`."""
    try:
        return tensor.requires_grad and tensor.is_leaf
    except RuntimeError:
        return False


def leads_to(start: Any, node: Any) -> bool:
    """Return whether there is a path from one node to another in the backward graph. Only a few steps are searched."""
    seen, frontier = {start}, [start]
    while frontier and len(seen) < _MAX_STEPS:
        for follower, _ in frontier.pop().next_functions:
            if follower is node:
                return True
            if follower is not None and follower not in seen and not is_leaf(follower):
                seen.add(follower)
                frontier.append(follower)
    return False


def node_of(value: Any) -> Any:
    """Return the node that receives the gradient of a tensor or gradient edge, or None if it is unknown."""
    if not isinstance(value, torch.Tensor):
        return value.node
    if functorch.is_functorch_wrapped_tensor(value):
        return value.grad_fn
    with SetExcludeDispatchKeyGuard(_AUTOGRAD, False):
        if value.grad_fn is not None or not _supports_views(value):
            return value.grad_fn
    return accumulator_of(value)


def _supports_views(leaf: torch.Tensor) -> bool:
    """Return whether a view of a leaf can be created, from which its node is found."""
    return leaf.layout is torch.strided and not leaf.is_nested


def accumulator_of(leaf: torch.Tensor) -> Any:
    """Return the node that accumulates a leaf's gradient, or None if it has none.

    Inference tensors have no such node. Neither does a view whose creation autograd did not see, even though it
    requires a gradient if its base does. Tensors inside a `DTensor` are such views.

    Source:
        torch/csrc/autograd/variable.h, `DifferentiableViewMeta::requires_grad`; torch/autograd/graph.py,
        `get_gradient_edge`.
    """
    if functorch.is_functorch_wrapped_tensor(leaf):
        return leaf.grad_fn
    with SetExcludeDispatchKeyGuard(_AUTOGRAD, False), torch.enable_grad(), DisableTorchDispatch():
        node: Any = leaf.view_as(leaf).grad_fn
        return None if node is None else node.next_functions[0][0]


def note_streams(leaf: torch.Tensor, streams: dict[int, StreamId]) -> Any:
    """Record in a leaf's node the streams that were current at its creation, unless already recorded; return it."""
    node: Any = accumulator_of(leaf) if _supports_views(leaf) else None
    if node is not None:
        node.metadata.setdefault("syncheck", streams)
    return node


def note_leaves(streams: dict[int, StreamId]) -> None:
    """Record in the nodes of all leaves of the program the streams that were current at their creation.

    A leaf without a node gets one that lives only during this call.
    """
    with disable_dispatch_modes():
        for tensor in living_tensors():
            if is_leaf_tensor(tensor):
                note_streams(tensor, streams)


def is_leaf(node: Any) -> bool:
    """Return whether a node accumulates the gradient of a leaf."""
    return sequence_number(node) == _LEAF
