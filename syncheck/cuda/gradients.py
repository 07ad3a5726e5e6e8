"""Gradients that cross between streams in a backward pass: torch protects them, as by `record_stream`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from syncheck.cuda.backend import Cuda

_current_node = torch._C._current_autograd_node  # noqa: SLF001  no public name


class Gradients:
    """What the nodes of the backward passes that run now have made, of all threads.

    Source:
        torch/csrc/autograd/input_buffer.cpp, `InputBuffer::add`: `record_stream_any_impl`, where the streams of
        producer and consumer differ.
    """

    def __init__(self, cuda: "Cuda") -> None:
        self._cuda = cuda
        self._made: dict[int, tuple[int, int]] = {}  # allocation -> number of the node that wrote it first, and stream
        self._before = 0  # the last allocation before the passes

    def begin(self) -> None:
        """A backward pass begins, and no other runs."""
        self._made.clear()
        self._before = self._cuda.memory.next_ident()

    def protect(self, stream: int, accesses: Sequence[tuple[int, int, bool]]) -> None:
        """An operator is about to be logged: gradients of other nodes are protected for its stream."""
        node = _current_node()
        if node is None:
            return
        number = node._sequence_nr()  # noqa: SLF001  torch has no public name; the node itself is not kept alive
        for allocation, view, is_write in accesses:
            if allocation > self._before and is_write:
                self._made.setdefault(allocation, (number, stream))
            maker, home = self._made.get(allocation, (number, stream))
            if maker != number and home != stream:
                self._cuda.monitor.record_stream(allocation, view, stream, 0)
