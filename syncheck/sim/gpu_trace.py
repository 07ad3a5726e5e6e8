"""torch's callbacks for GPU calls, which `torch.cuda._gpu_trace` registers and torch's own sanitizer uses."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.cuda import _gpu_trace

from syncheck.hb.ids import EventId, StreamId
from syncheck.sim.virtual_gpus import VirtualGpus

storage_address = torch.UntypedStorage.data_ptr
"""Return the address of a storage. This is the original method, whose calls do not count as exports."""


def event_handle(event: EventId) -> int:
    """Return the handle of a recorded event."""
    return 0x1000 + event


class GpuTrace:
    """Fires the callbacks once the program has activated them.

    Attributes:
        on_activation: called when the program activates them.

    Source:
        aten/src/ATen/cuda/CUDAEvent.h: events are created at their first record, and no callback is fired before;
        c10/cuda/CUDAStream.cpp, CUDACachingAllocator.cpp, CUDAFunctions.cpp, impl/CUDAGuardImpl.h: all others.
    """

    def __init__(self, gpus: VirtualGpus) -> None:
        self._gpus = gpus
        self._is_active = False
        self._is_silent = False
        self._created: set[EventId] = set()
        self.on_activation: Callable[[], None] = lambda: None
        gpus.guarded.followers.append(self._follow)

    def activate(self) -> None:
        """Fire callbacks from now on."""
        self.on_activation()
        self._is_active = True

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Fire no callbacks in a block. Used for a query that returns True, which the monitor records as a wait."""
        with self._gpus.lock:
            self._is_silent = True
            try:
                yield
            finally:
                self._is_silent = False

    # -- creation and destruction

    def allocated(self, storage: torch.UntypedStorage) -> int:
        """Report an allocation of GPU memory. Return its address, or 0 if no callback was fired."""
        if not self._is_active or not storage.nbytes():
            return 0
        address = storage_address(storage)
        _gpu_trace.MemoryAllocationCallbacks.fire_callbacks(address)
        return address

    def freed(self, address: int) -> None:
        """Report the release of memory, given its address as returned by `allocated`."""
        if address:
            _gpu_trace.MemoryDeallocationCallbacks.fire_callbacks(address)

    def event_destroyed(self, event: EventId) -> None:
        """Report the destruction of an event object."""
        if event in self._created:
            self._created.discard(event)
            if self._is_active:
                _gpu_trace.EventDeletionCallbacks.fire_callbacks(event_handle(event))

    # -- calls

    def _follow(self, name: str, args: tuple[Any, ...]) -> None:
        """Track a call of the monitor."""
        if name == "record":
            self._fire_record(args[0], args[1])
        elif self._is_active and not self._is_silent:
            self._fire(name, args)

    def _fire(self, name: str, args: tuple[Any, ...]) -> None:
        match name:
            case "wait" if args[0] in self._created:
                self._fire_wait(args[0], args[1])
            case "wait_stream":
                event = self._gpus.next_event()
                self._fire_record(event, args[1])
                self._fire_wait(event, args[0])
                self.event_destroyed(event)
            case "sync_event" if args[0] in self._created:
                _gpu_trace.EventSynchronizationCallbacks.fire_callbacks(event_handle(args[0]))
            case "sync_stream":
                _gpu_trace.StreamSynchronizationCallbacks.fire_callbacks(self._gpus.handle_of(args[0]))
            case "sync_device":
                _gpu_trace.DeviceSynchronizationCallbacks.fire_callbacks()
            case "stream":
                _gpu_trace.StreamCreationCallbacks.fire_callbacks(args[2])
            case _:
                pass

    def _fire_record(self, event: EventId, stream: StreamId) -> None:
        is_new = event not in self._created
        self._created.add(event)
        if not self._is_active:
            return
        if is_new:
            _gpu_trace.EventCreationCallbacks.fire_callbacks(event_handle(event))
        _gpu_trace.EventRecordCallbacks.fire_callbacks(event_handle(event), self._gpus.handle_of(stream))

    def _fire_wait(self, event: EventId, stream: StreamId) -> None:
        _gpu_trace.EventWaitCallbacks.fire_callbacks(event_handle(event), self._gpus.handle_of(stream))
