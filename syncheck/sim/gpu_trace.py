"""torch's callbacks for GPU calls: what `torch.cuda._gpu_trace` registers, and torch's own sanitizer listens to."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.cuda import _gpu_trace

from syncheck.hb.ids import EventId, StreamId
from syncheck.sim.virtual_gpus import VirtualGpus

storage_address = torch.UntypedStorage.data_ptr
"""Return the address of a storage: as it is before a run replaces it, which hands nothing out."""


def event_handle(event: EventId) -> int:
    """Return the handle of an event that was recorded."""
    return 0x1000 + event


class GpuTrace:
    """Calls the callbacks, once the program has activated them.

    Source:
        aten/src/ATen/cuda/CUDAEvent.h: events are created at their first record, and nothing is called before;
        c10/cuda/CUDAStream.cpp, CUDACachingAllocator.cpp, CUDAFunctions.cpp, impl/CUDAGuardImpl.h: all others.
    """

    def __init__(self, gpus: VirtualGpus) -> None:
        self._gpus = gpus
        self._is_active = False
        self._is_silent = False
        self._created: set[EventId] = set()
        gpus.guarded.followers.append(self._follow)

    def activate(self) -> None:
        """Call back from here on."""
        self._is_active = True

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Make no calls in a block: a query with the answer yes is a wait to the monitor."""
        with self._gpus.lock:
            self._is_silent = True
            try:
                yield
            finally:
                self._is_silent = False

    # -- what is made and is gone again

    def allocated(self, storage: torch.UntypedStorage) -> int:
        """A GPU's memory was allocated; return its address, 0 where no callback was called."""
        if not self._is_active or not storage.nbytes():
            return 0
        address = storage_address(storage)
        _gpu_trace.MemoryAllocationCallbacks.fire_callbacks(address)
        return address

    def freed(self, address: int) -> None:
        """The memory was freed for whose address `allocated` called."""
        if address:
            _gpu_trace.MemoryDeallocationCallbacks.fire_callbacks(address)

    def event_gone(self, event: EventId) -> None:
        """An event object is gone."""
        if event in self._created:
            self._created.discard(event)
            if self._is_active:
                _gpu_trace.EventDeletionCallbacks.fire_callbacks(event_handle(event))

    # -- calls

    def _follow(self, name: str, args: tuple[Any, ...]) -> None:
        """Follow a call of the monitor."""
        if name == "record":
            self._recorded(args[0], args[1])
        elif self._is_active and not self._is_silent:
            self._call_back(name, args)

    def _call_back(self, name: str, args: tuple[Any, ...]) -> None:
        match name:
            case "wait" if args[0] in self._created:
                self._waits(args[0], args[1])
            case "wait_stream":
                event = self._gpus.next_event()
                self._recorded(event, args[1])
                self._waits(event, args[0])
                self.event_gone(event)
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

    def _recorded(self, event: EventId, stream: StreamId) -> None:
        is_new = event not in self._created
        self._created.add(event)
        if not self._is_active:
            return
        if is_new:
            _gpu_trace.EventCreationCallbacks.fire_callbacks(event_handle(event))
        _gpu_trace.EventRecordCallbacks.fire_callbacks(event_handle(event), self._gpus.handle_of(stream))

    def _waits(self, event: EventId, stream: StreamId) -> None:
        _gpu_trace.EventWaitCallbacks.fire_callbacks(event_handle(event), self._gpus.handle_of(stream))
