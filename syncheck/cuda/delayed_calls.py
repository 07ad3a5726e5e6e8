"""Operators and other launches around which a run with a delay acts."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from syncheck.hb.ids import StreamId
from syncheck.witness.schedule import LaunchId


class Call(NamedTuple):
    """An operator, a Triton kernel or the replay of a graph that is about to run.

    Attributes:
        name: what it is: "aten::add_".
        touches: it uses memory, and is no mere view.
        device: the device that it runs on.
        tensors: its tensors, and whether each is written.
        is_collective: it may work on a stream of its own.
        group: the process group of a collective; None if it is not known.
    """

    name: str
    touches: bool
    device: int
    tensors: Sequence[tuple[torch.Tensor, bool]]
    is_collective: bool
    group: Any = None

    @property
    def read(self) -> list[torch.Tensor]:
        """The tensors whose values it reads: what `out=` names is only written, what a kernel writes it may read."""
        changes = self.name.endswith("_") or not self.name.startswith("aten::")
        return [tensor for tensor, is_write in self.tensors if (changes or not is_write) and is_plain(tensor)]


class Running(NamedTuple):
    """An operator that runs.

    Attributes:
        call: what it is.
        stream: the current stream of its device.
        before: the launches of each stream before it.
        submitted: when it was submitted, in seconds.
        reads: copies of what it reads.
        is_late: it is delayed.
        aside: the handle of the stream that is current in place of the program's; 0 for none.
    """

    call: Call
    stream: StreamId
    before: Counter[StreamId]
    submitted: float
    reads: list[torch.Tensor]
    is_late: bool
    aside: int

    def may_have_made(self, launch: LaunchId) -> bool:
        """Return whether a launch that has been made since may be the operator's, and not another thread's."""
        is_own = launch.stream == self.stream or self.call.is_collective
        return is_own and self.before[StreamId(launch.stream)] < launch.number


def is_plain(tensor: torch.Tensor) -> bool:
    """Return whether a tensor lies in memory of its own kind, so that its values can be copied as they are."""
    return tensor.layout is torch.strided and not tensor.is_nested
