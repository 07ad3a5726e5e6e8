"""Gradients that cross between streams in a backward pass: torch protects them, as by `record_stream`."""

from syncheck.hb.ids import NO_ALLOCATION, UNKNOWN_SITE, Accesses, AllocationId, StreamId
from syncheck.sanitizer.monitor import Monitor


class Gradients:
    """What the nodes of a backward pass have made, or of several that run at once.

    A gradient is protected for the stream of the node that consumes it, not for one that a hook, or the node itself,
    has made current since.

    Source:
        torch/csrc/autograd/input_buffer.cpp, `InputBuffer::add`: `record_stream_any_impl`, where the streams of
        producer and consumer differ.
    """

    def __init__(self) -> None:
        self._before = NO_ALLOCATION
        self._made: dict[
            AllocationId, tuple[int, StreamId]
        ] = {}  # allocation -> node that wrote it first, and its stream

    def begin(self, before: AllocationId) -> None:
        """A pass begins, and no other runs; `before`: what is allocated in it has a greater id."""
        self._before = before
        self._made.clear()

    def made(self, allocation: AllocationId, node: int, stream: StreamId) -> None:
        """A node has made memory, and written it first, on a stream."""
        if allocation > self._before:
            self._made.setdefault(allocation, (node, stream))

    def protect(self, monitor: Monitor, node: int, own: StreamId, stream: StreamId, accesses: Accesses) -> None:
        """An operator is about to be logged: gradients of other nodes are protected for its stream.

        Args:
            monitor: receives the calls.
            node: a number of the node that it runs in: to keep the node itself would keep alive what it holds.
            own: the node's stream on the device of the operator.
            stream: the operator's stream.
            accesses: what it reads and writes: (allocation, view, is_write).
        """
        for allocation, view, is_write in accesses:
            if allocation > self._before and is_write:
                self._made.setdefault(allocation, (node, stream))
            maker, home = self._made.get(allocation, (node, stream))
            if maker != node and home != stream == own:
                monitor.record_stream(allocation, view, stream, UNKNOWN_SITE)
