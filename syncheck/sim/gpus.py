"""Reports work on virtual GPUs that torch does not dispatch."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from syncheck.hb.ids import UNKNOWN_SITE, Access, EventId, SiteId, StreamId
from syncheck.instrument.gpus import TensorUse
from syncheck.sanitizer.monitor import Monitor
from syncheck.semantics.copies import HOST_DEVICE
from syncheck.sim.launches import Launches
from syncheck.sim.runtime import Runtime


class SimulatedGpus:
    """Implements `syncheck.instrument.gpus.Gpus`."""

    def __init__(self, runtime: Runtime, launches: Launches) -> None:
        self._runtime = runtime
        self._gpus = runtime.gpus
        self._launches = launches
        self._new: set[StreamId] = set()

    def is_checking(self) -> bool:
        """See `Gpus`."""
        return self._runtime.is_checking

    def monitor(self) -> AbstractContextManager[Monitor]:
        """See `Gpus`."""
        return nullcontext(self._gpus.monitor)

    def site(self) -> SiteId:
        """See `Gpus`."""
        return self._gpus.site()

    def stream_of(self, stream: Any) -> StreamId:
        """See `Gpus`."""
        return self._runtime.resolve(stream)[1]

    def event_of(self, event: Any) -> EventId:
        """See `Gpus`."""
        return self._runtime.event_of(event)

    def device_of(self, tensor: torch.Tensor) -> int:
        """See `Gpus`."""
        memory = self._runtime.memory
        return HOST_DEVICE if memory.of(tensor) is None else memory.device(tensor)

    def current(self, device: int) -> StreamId:
        """See `Gpus`."""
        return self._gpus.current_stream(device)

    def new_stream(self, device: int) -> StreamId:
        """See `Gpus`."""
        stream = self._gpus.new_stream(device, UNKNOWN_SITE)
        self._new.add(stream)
        return stream

    def launch(self, operator: str, stream: StreamId, uses: list[TensorUse]) -> None:
        """See `Gpus`."""
        accesses: list[Access] = []
        for tensor, is_write in uses:
            self._runtime.memory.add_access(accesses, tensor, is_write=is_write)
        if accesses:
            device = self._gpus.device_of(stream)
            context = None if stream in self._new else self._gpus.context(device, device)
            self._launches.launch(stream, operator, accesses, context)
