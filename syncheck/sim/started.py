"""A collective that runs on a communication stream."""

from dataclasses import dataclass
from typing import Any

import torch

from syncheck.hb.ids import EventId, StreamId


@dataclass(slots=True)
class StartedCollective:
    """A collective on a communication stream.

    Attributes:
        work: torch's handle, kept alive so that its Python object stays the same.
        event: the event recorded at its end.
        stream: the communication stream.
        tensors: its tensors, kept alive until the program has waited.
        group: the name of its group in the ranks' records.
        was_queried: whether `is_completed` has already returned False.
        is_barrier: whether a wait for it makes the host wait.
        is_for_reducer: whether a communication hook has returned a future of it, for which DDP's reducer waits.
    """

    work: Any
    event: EventId
    stream: StreamId
    tensors: list[torch.Tensor]
    group: str
    was_queried: bool = False
    is_barrier: bool = False
    is_for_reducer: bool = False
