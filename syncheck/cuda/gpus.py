"""Reports work on real GPUs that torch does not dispatch."""

from contextlib import AbstractContextManager
from typing import Any

import torch

from syncheck.cuda.events import Events
from syncheck.cuda.launches import Launches
from syncheck.cuda.memory import Memory
from syncheck.cuda.reporter import Reporter
from syncheck.cuda.streams import Streams
from syncheck.hb.ids import EventId, SiteId, StreamId
from syncheck.instrument.gpus import TensorUse
from syncheck.sanitizer.monitor import Monitor
from syncheck.semantics.copies import HOST_DEVICE


class CudaGpus:
    """Implements `syncheck.instrument.gpus.Gpus`."""

    def __init__(
        self, reporter: Reporter, streams: Streams, memory: Memory, events: Events, launches: Launches
    ) -> None:
        self._reporter = reporter
        self._streams = streams
        self._memory = memory
        self._events = events
        self._launches = launches

    def is_checking(self) -> bool:
        """See `Gpus`."""
        return not self._reporter.callbacks_suppressed

    def monitor(self) -> AbstractContextManager[Monitor]:
        """See `Gpus`."""
        return self._reporter.locked_monitor()

    def site(self) -> SiteId:
        """See `Gpus`."""
        return self._reporter.site()

    def stream_of(self, stream: Any) -> StreamId:
        """See `Gpus`."""
        return self._streams.of_object(stream)

    def event_of(self, event: Any) -> EventId:
        """See `Gpus`."""
        return self._events.of(event)

    def device_of(self, tensor: torch.Tensor) -> int:
        """See `Gpus`."""
        return tensor.get_device() if tensor.is_cuda else HOST_DEVICE

    def current(self, device: int) -> StreamId:
        """See `Gpus`."""
        return self._streams.current(device)

    def new_stream(self, device: int) -> StreamId:
        """See `Gpus`."""
        return self._streams.without_handle(device)

    def launch(self, operator: str, stream: StreamId, uses: list[TensorUse]) -> None:
        """See `Gpus`."""
        with self._reporter.locked_monitor():
            accesses = [a for tensor, is_write in uses if (a := self._memory.access(tensor, is_write=is_write))]
        device = self._streams.device_of(stream)
        self._launches.launch(operator, stream, device, accesses, [tensor for tensor, _ in uses])
