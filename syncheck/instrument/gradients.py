"""Gradients that cross streams in a backward pass, which torch protects as if by `record_stream`."""

from syncheck.hb.ids import NO_ALLOCATION, UNKNOWN_SITE, Accesses, AllocationId, StreamId
from syncheck.sanitizer.monitor import Monitor


class Gradients:
    """Memory created by the nodes of a backward pass, or of several concurrent ones.

    A gradient is protected for the stream of the node that consumes it, not for a stream that a hook, or the node
    itself, has made current since.

    Source:
        torch/csrc/autograd/input_buffer.cpp, `InputBuffer::add`: `record_stream_any_impl`, if the streams of producer
        and consumer differ.
    """

    def __init__(self) -> None:
        self._before = NO_ALLOCATION
        self._made: dict[
            AllocationId, tuple[int, StreamId]
        ] = {}  # allocation -> node that wrote it first, and its stream

    def begin(self, before: AllocationId) -> None:
        """Begin a pass while no other is running; allocations made in it have ids greater than `before`."""
        self._before = before
        self._made.clear()

    def is_from_this_pass(self, allocation: AllocationId) -> bool:
        """Return whether memory was allocated since the latest pass began."""
        return allocation > self._before

    def made(self, allocation: AllocationId, node: int, stream: StreamId) -> None:
        """Record that a node created memory and was the first to write it, on a stream."""
        if self.is_from_this_pass(allocation):
            self._made.setdefault(allocation, (node, stream))

    def protect(self, monitor: Monitor, node: int, node_stream: StreamId, stream: StreamId, accesses: Accesses) -> None:
        """Protect gradients of other nodes for the stream of an operator that is about to be logged.

        Args:
            monitor: receives the calls.
            node: number of the node that the operator runs in; the node object would keep alive what it holds.
            node_stream: the node's stream on the operator's device.
            stream: the operator's stream.
            accesses: the operator's accesses: (allocation, view, is_write).
        """
        for allocation, view, is_write in accesses:
            if is_write and self.is_from_this_pass(allocation):
                self._made.setdefault(allocation, (node, stream))
            maker, home = self._made.get(allocation, (node, stream))
            if maker != node and home != stream == node_stream:
                monitor.record_stream(allocation, view, stream, UNKNOWN_SITE)
