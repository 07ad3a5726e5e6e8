"""State of a backward pass and of the thread that runs it."""

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from syncheck.hb.ids import SiteId, StreamId
from syncheck.instrument.gradients import Gradients
from syncheck.instrument.torch_internals import sequence_number
from syncheck.sim.nodes import ThreadLog, is_leaf, node_of


@dataclass(slots=True)
class BackwardPass:
    """One call of backward() or grad().

    Attributes:
        caller: device -> stream that was current at the call.
        saved: the thread's current streams, restored after each node.
        saved_device: the thread's current device at the call, restored at the end.
        node: the running node.
        node_streams: device -> the node's stream, where it is not the default stream.
        used: streams on which the running node has launched work.
        arrived: node -> streams that produced its gradients.
        arrived_leaves: the same for the nodes of leaves.
        first_uses: node of a leaf -> number of the earliest node seen that uses the leaf, and the streams of that node.
        log: stream log of the thread that created the running node.
        leaves: streams that produced gradients of leaves, or of nodes in `captured`.
        n_nodes: number of nodes run so far.
        gradients: the gradients produced so far.
        captured: nodes whose gradients were requested with `inputs`; None if all leaves get gradients.
        site: call site in the program; None until it is needed.
        has_ended: whether all nodes have run.
    """

    caller: dict[int, StreamId]
    saved: dict[int, StreamId]
    saved_device: int
    node: Any = None
    node_streams: dict[int, StreamId] = field(default_factory=dict)
    used: set[StreamId] = field(default_factory=set)
    arrived: dict[Any, set[StreamId]] = field(default_factory=dict)
    arrived_leaves: dict[Any, set[StreamId]] = field(default_factory=dict)
    first_uses: dict[Any, tuple[int, dict[int, StreamId]]] = field(default_factory=dict)
    log: ThreadLog | None = None
    leaves: set[StreamId] = field(default_factory=set)
    n_nodes: int = 0
    gradients: Gradients = field(default_factory=Gradients)
    captured: set[Any] | None = None
    site: SiteId | None = None
    has_ended: bool = False

    def note_roots(self, roots: Iterable[tuple[Any, int]]) -> None:
        """Record that the gradients which the pass starts from come from the caller's current streams.

        Args:
            roots: each value that the pass starts from, with the device of its gradient.

        Source:
            torch/csrc/autograd/engine.cpp, `Engine::execute`: such a gradient has the current stream of its device.
        """
        for value, device in roots:
            if device in self.caller and (node := node_of(value)) is not None:
                arrived = self.arrived_leaves if is_leaf(node) else self.arrived
                arrived.setdefault(node, set()).add(self.caller[device])

    def note_use(self, leaf: Any, node: Any, streams: dict[int, StreamId]) -> None:
        """Record the streams of a node that uses a leaf.

        Args:
            leaf: node of the leaf.
            node: the node that passes a gradient to it.
            streams: device -> the stream of that node, where it is not the default stream.
        """
        number = sequence_number(node)
        if leaf not in self.first_uses or number < self.first_uses[leaf][0]:
            self.first_uses[leaf] = number, streams

    def streams_of_leaf(self, leaf: Any) -> dict[int, StreamId]:
        """Return the streams that were current when the node of a leaf was created.

        The nodes of some leaves cannot be found before the pass: those of the tensors that `torch.func` wraps, and of
        tensors without views. They have the streams of the first node that uses them.

        Source:
            torch/csrc/autograd/variable.cpp, `grad_accumulator`: created at first use.
            aten/src/ATen/functorch/TensorWrapper.h: a wrapper takes part in autograd as any other tensor.
        """
        recorded: dict[int, StreamId] | None = leaf.metadata.get("syncheck")
        return self.first_uses.get(leaf, (0, {}))[1] if recorded is None else recorded


class ThreadGradients(threading.local):
    """Autograd state of the calling thread.

    Attributes:
        run: the current call of backward() or grad(); None outside of one.
        log: stream log of the nodes that the thread has created; None before its first operator.
    """

    run: BackwardPass | None = None
    log: ThreadLog | None = None
