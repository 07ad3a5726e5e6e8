"""A collective that runs on a communication stream."""

from dataclasses import dataclass
from typing import Any

import torch

from syncheck.hb.ids import EventId, StreamId


@dataclass(slots=True)
class Started:
    """A collective on a communication stream.

    Attributes:
        work: torch's handle; kept, so that it stays the same object.
        event: is recorded at its end.
        stream: the communication stream.
        tensors: its tensors, which live until the program has waited.
        group: the name of its group in the records of the ranks.
        was_asked: `is_completed` has returned False once.
        is_barrier: a wait for it makes the host wait.
    """

    work: Any
    event: EventId
    stream: StreamId
    tensors: list[torch.Tensor]
    group: str
    was_asked: bool = False
    is_barrier: bool = False
