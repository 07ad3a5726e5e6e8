"""What torch itself reports: records, waits and synchronizations, also those that C++ code makes.

Source:
    torch/cuda/_gpu_trace.py; called from c10/cuda/impl/CUDAGuardImpl.h, ATen/cuda/CUDAEvent.h and
    c10/cuda/CUDAFunctions.cpp. Inside a record or wait callback the current device is
    that of the stream.
"""

import sys
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch.cuda._gpu_trace as gpu_trace

from syncheck.cuda import devices
from syncheck.cuda.callback_order import Callback, Kind
from syncheck.cuda.mode import DISPATCH
from syncheck.instrument.patching import Patches

if TYPE_CHECKING:
    from syncheck.cuda.backend import Cuda


class Callbacks:
    """Listens to torch's GPU trace. What the hooks on Python methods know better, they keep from it."""

    def __init__(self, cuda: "Cuda") -> None:
        self._cuda = cuda

    def install(self, patches: Patches) -> None:
        """Put our handlers in place of the registries' own loops, which they call first where somebody else listens.

        A handler in place costs half of one in the registry's list. Creations say nothing: the generic event API
        reports the address of a variable, and streams are announced at first use. Memory is followed by its storages.
        """
        handlers: dict[str, Callable[..., None]] = {
            "EventDeletion": self._event_deleted,
            "EventRecord": self._recorded,
            "EventWait": self._waited,
            "DeviceSynchronization": self._device_synchronized,
            "StreamSynchronization": self._stream_synchronized,
            "EventSynchronization": self._event_synchronized,
        }
        for name in devices.REGISTRIES:
            registry = getattr(gpu_trace, f"{name}Callbacks", None)
            if registry is None:
                continue
            handler = handlers.get(name, _ignore)
            if registry.callback_list:
                handler = _both(registry.fire_callbacks, handler)
            patches.set(registry, "fire_callbacks", handler)

    # -- handlers

    def _note(self, frame: FrameType | None, kind: Kind, event: int, stream: int) -> bool:
        """Keep a callback for the operator that it belongs to, if any."""
        if frame is None or frame.f_code is not DISPATCH:
            return False
        operators = self._cuda.operators
        operators.n_inner += 1
        operators.inner.setdefault(id(frame), []).append(Callback(kind, event, stream))
        return True

    def _recorded(self, handle: int, stream_handle: int) -> None:
        cuda = self._cuda
        if cuda.callbacks_suppressed:
            return
        stream = cuda.streams.of(devices.current_device(), stream_handle, is_torchs=True)
        event = cuda.events.of_handle(handle)
        if not self._note(_caller(), Kind.RECORD, event, stream):
            with cuda.locked_monitor() as monitor:
                monitor.record(event, stream, cuda.site())

    def _waited(self, handle: int, stream_handle: int) -> None:
        cuda = self._cuda
        if cuda.callbacks_suppressed or not cuda.events.is_known(handle):
            return  # an event from before the check: what it stands for is unknown
        stream = cuda.streams.of(devices.current_device(), stream_handle, is_torchs=True)
        event = cuda.events.of_handle(handle)
        if not self._note(_caller(), Kind.WAIT, event, stream):
            with cuda.locked_monitor() as monitor:
                monitor.wait(event, stream, cuda.site(), "")

    def _event_deleted(self, handle: int) -> None:
        self._cuda.events.deleted(handle)

    def _device_synchronized(self) -> None:
        cuda = self._cuda
        if cuda.callbacks_suppressed:
            return
        device = devices.current_device()
        if self._note(_caller(), Kind.SYNC_DEVICE, 0, device) or self._refused("torch.cuda.synchronize()"):
            return
        cuda.host.verify_all_unmodified()
        with cuda.locked_monitor() as monitor:
            monitor.sync_device(device, cuda.site())

    def _stream_synchronized(self, stream_handle: int) -> None:
        cuda = self._cuda
        if cuda.callbacks_suppressed:
            return
        stream = cuda.streams.of(devices.current_device(), stream_handle)
        if self._note(_caller(), Kind.SYNC_STREAM, 0, stream):
            return
        if cuda.monitor.capturing(stream) and self._refused("Stream.synchronize()"):
            return
        with cuda.locked_monitor() as monitor:
            monitor.sync_stream(stream, cuda.site(), explicit=True)

    def _event_synchronized(self, handle: int) -> None:
        cuda = self._cuda
        if cuda.callbacks_suppressed or not cuda.events.is_known(handle):
            return
        event = cuda.events.of_handle(handle)
        if not self._note(_caller(), Kind.SYNC_EVENT, event, 0):
            with cuda.locked_monitor() as monitor:
                monitor.sync_event(event, cuda.site())

    def _refused(self, call: str) -> bool:
        """During a capture such a call is an error, which CUDA raises: report it."""
        cuda = self._cuda
        if not cuda.captures:
            return False
        with cuda.locked_monitor() as monitor:
            monitor.sync_in_capture(call, cuda.site())
        return True


def _caller() -> FrameType | None:
    """Return the Python frame from which C++ called the handler."""
    try:
        return sys._getframe(2)  # noqa: SLF001  the documented way to get a frame
    except ValueError:
        return None


def _ignore(*args: object) -> None:
    del args


def _both(first: Callable[..., Any], second: Callable[..., Any]) -> Callable[..., None]:
    def fire(*args: object) -> None:
        first(*args)
        second(*args)

    return fire
