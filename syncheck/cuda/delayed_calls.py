"""Operators and other launches that a run with a delay intercepts."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from syncheck.hb.ids import StreamId
from syncheck.witness.schedule import LaunchId


class Call(NamedTuple):
    """An operator, a Triton kernel or a graph replay that is about to run.

    Attributes:
        name: its name, such as "aten::add_".
        touches: whether it accesses memory, unlike a view.
        device: the device that it runs on; negative if that is not a GPU.
        tensors: its tensors, and whether each is written.
        is_collective: whether it may run on a stream of its own.
        group: the process group of a collective; None if it is unknown.
    """

    name: str
    touches: bool
    device: int
    tensors: Sequence[tuple[torch.Tensor, bool]]
    is_collective: bool
    group: Any = None

    @property
    def read(self) -> list[torch.Tensor]:
        """The tensors that it may read: excludes those of `out=`, includes those that a kernel writes."""
        changes = self.name.endswith("_") or not self.name.startswith("aten::")
        return [tensor for tensor, is_write in self.tensors if (changes or not is_write) and is_plain(tensor)]


class Running(NamedTuple):
    """An operator that is running.

    Attributes:
        call: the operator.
        stream: the current stream of its device.
        before: number of launches of each stream before it.
        submitted: when it was submitted, in seconds since the start.
        reads: copies of the tensors that it reads.
        is_delayed: whether it is delayed.
        forked: handle of the stream that replaces the program's current stream; 0 for none.
    """

    call: Call
    stream: StreamId
    before: Counter[StreamId]
    submitted: float
    reads: list[torch.Tensor]
    is_delayed: bool
    forked: int

    def may_have_launched(self, launch: LaunchId) -> bool:
        """Return whether a launch made in the meantime may come from this operator rather than from another thread."""
        is_candidate = launch.stream == self.stream or self.call.is_collective
        return is_candidate and self.before[StreamId(launch.stream)] < launch.number


def is_plain(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is strided and not nested, so that its values can be copied directly."""
    return tensor.layout is torch.strided and not tensor.is_nested
