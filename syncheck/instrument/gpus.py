"""The part of a backend that reports GPU work which torch does not dispatch: described functions, and messages."""

from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch

from syncheck.hb.ids import EventId, SiteId, StreamId
from syncheck.sanitizer.monitor import Monitor

TensorUse = tuple[torch.Tensor, bool]
"""A tensor, and whether it is written."""


class Gpus(Protocol):
    """The GPUs of a backend."""

    def is_checking(self) -> bool:
        """Return whether the program is being checked."""
        ...

    def monitor(self) -> AbstractContextManager[Monitor]:
        """Return a context that provides the monitor."""
        ...

    def site(self) -> SiteId:
        """Return the call site of the running code."""
        ...

    def stream_of(self, stream: Any) -> StreamId:
        """Return the stream that an object represents; the current stream for None."""
        ...

    def event_of(self, event: Any) -> EventId:
        """Return the event that an object represents; NO_EVENT if it is unknown."""
        ...

    def device_of(self, tensor: torch.Tensor) -> int:
        """Return the device of a tensor; HOST_DEVICE if it is not on a GPU."""
        ...

    def current(self, device: int) -> StreamId:
        """Return the current stream of a device."""
        ...

    def new_stream(self, device: int) -> StreamId:
        """Return a new stream, on which work runs beside that of the others."""
        ...

    def launch(self, operator: str, stream: StreamId, uses: list[TensorUse]) -> None:
        """Report work on a stream."""
        ...
