"""Reporting of library functions with a description, on virtual GPUs."""

from typing import Any

from syncheck.hb.ids import BY_TORCH, Access, StreamId, WaitCall
from syncheck.instrument.library import TensorUse
from syncheck.sim.launches import Launches
from syncheck.sim.runtime import Runtime


class LibraryCalls:
    """Implements `syncheck.instrument.library.GpuCalls`."""

    def __init__(self, runtime: Runtime, launches: Launches) -> None:
        self._runtime = runtime
        self._gpus = runtime.gpus
        self._launches = launches

    def is_checking(self) -> bool:
        """Return whether the program is being checked now."""
        return self._runtime.is_checking

    def stream_of(self, stream: Any) -> StreamId:
        """Return the stream that an object represents, or the current stream for None."""
        return self._runtime.resolve(stream)[1]

    def launch(self, operator: str, stream: StreamId, uses: list[TensorUse]) -> None:
        """Report work on a stream."""
        accesses: list[Access] = []
        for tensor, is_write in uses:
            self._runtime.memory.add_access(accesses, tensor, is_write=is_write)
        if accesses:
            device = self._gpus.device_of(stream)
            self._launches.launch(stream, operator, accesses, self._gpus.context(device, device))

    def wait_stream(self, stream: StreamId, other: StreamId) -> None:
        """Report that a stream waits for another stream."""
        if stream != other:
            self._gpus.monitor.wait_stream(stream, other, self._gpus.site(), BY_TORCH)

    def wait_event(self, stream: StreamId, event: Any) -> None:
        """Report that a stream waits for an event."""
        ident = self._runtime.event_of(event)
        if ident:
            self._gpus.monitor.wait(ident, stream, self._gpus.site(), WaitCall.TORCH)

    def sync_stream(self, stream: StreamId) -> None:
        """Report that the host waits for a stream."""
        self._gpus.monitor.sync_stream(stream, self._gpus.site(), explicit=False)
