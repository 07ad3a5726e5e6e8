"""Handles torch's own callbacks for records, waits and synchronizations, including those made by C++ code.

Source:
    torch/cuda/_gpu_trace.py; called from c10/cuda/impl/CUDAGuardImpl.h, ATen/cuda/CUDAEvent.h and
    c10/cuda/CUDAFunctions.cpp. Inside a record or wait callback, the stream's device is the current device.
"""

from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

import torch.cuda._gpu_trace as gpu_trace

from syncheck.cuda import devices
from syncheck.cuda.callback_order import Callback, Kind, PendingCallbacks
from syncheck.cuda.captures import Captures
from syncheck.cuda.events import Events
from syncheck.cuda.host import HostMemory
from syncheck.cuda.mode import DISPATCH
from syncheck.cuda.reporter import Reporter
from syncheck.cuda.streams import Streams
from syncheck.hb.clock import HOST
from syncheck.hb.ids import NO_EVENT, EventId, StreamId, WaitCall
from syncheck.instrument.patching import Patches
from syncheck.source.frames import frame_at

_SYNCS = frozenset((Kind.SYNC_DEVICE, Kind.SYNC_EVENT, Kind.SYNC_STREAM))


class TraceHandlers:
    """Listens to torch's GPU trace. The hooks on Python methods suppress callbacks that they report themselves."""

    def __init__(
        self,
        reporter: Reporter,
        streams: Streams,
        events: Events,
        host: HostMemory,
        pending_callbacks: PendingCallbacks,
        captures: Captures,
    ) -> None:
        self._reporter = reporter
        self._streams = streams
        self._events = events
        self._host = host
        self._pending_callbacks = pending_callbacks
        self._captures = captures

    def install(self, patches: Patches) -> None:
        """Replace the registries' dispatch by our handlers, which first call any handlers registered by others.

        A direct handler costs half of one in the registry's list. Creations are ignored: the generic event API reports
        the address of a variable, and streams are announced at first use. Memory is tracked through its storages.
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

    def _note(self, frame: FrameType | None, kind: Kind, event: EventId, stream: StreamId) -> bool:
        """Keep a callback for the operator that it belongs to; return False if there is none."""
        if frame is None or frame.f_code is not DISPATCH:
            return False
        if kind in _SYNCS:
            self._streams.before_wait()
        self._pending_callbacks.keep(frame, Callback(kind, event, stream))
        return True

    def _recorded(self, handle: int, stream_handle: int) -> None:
        reporter = self._reporter
        if reporter.callbacks_suppressed:
            return
        stream = self._streams.of(devices.current_device(), stream_handle, is_created_in_cpp=True)
        event = self._events.of_handle(handle)
        self._events.on_record(event)
        if not self._note(_caller(), Kind.RECORD, event, stream):
            with reporter.locked_monitor() as monitor:
                monitor.record(event, stream, reporter.site())

    def _waited(self, handle: int, stream_handle: int) -> None:
        reporter = self._reporter
        if reporter.callbacks_suppressed or not self._events.is_known(handle):
            return  # an event that predates the check, so what it covers is unknown
        stream = self._streams.of(devices.current_device(), stream_handle, is_created_in_cpp=True)
        event = self._events.of_handle(handle)
        if not self._note(_caller(), Kind.WAIT, event, stream):
            with reporter.locked_monitor() as monitor:
                monitor.wait(event, stream, reporter.site(), WaitCall.TORCH)

    def _event_deleted(self, handle: int) -> None:
        self._events.deleted(handle)

    def _device_synchronized(self) -> None:
        reporter = self._reporter
        if reporter.callbacks_suppressed:
            return
        device = devices.current_device()
        if self._note(_caller(), Kind.SYNC_DEVICE, NO_EVENT, StreamId(device)) or self._report_forbidden(
            "torch.cuda.synchronize()"
        ):
            return
        self._before_wait(self._streams.on_device(device))
        self._host.verify_all_unmodified()
        site = reporter.site()
        if not reporter.defer(("sync_device", device, site)):
            with reporter.locked_monitor() as monitor:
                monitor.sync_device(device, site)

    def _stream_synchronized(self, stream_handle: int) -> None:
        reporter = self._reporter
        if reporter.callbacks_suppressed:
            return
        stream = self._streams.of(devices.current_device(), stream_handle)
        if self._note(_caller(), Kind.SYNC_STREAM, NO_EVENT, stream):
            return
        self._before_wait([stream])
        if reporter.call_buffer.monitor.capturing(stream) and self._report_forbidden("Stream.synchronize()"):
            return
        self._host.verify_all_unmodified(is_last=False)
        with reporter.locked_monitor() as monitor:
            monitor.sync_stream(stream, reporter.site(), explicit=True)

    def _event_synchronized(self, handle: int) -> None:
        reporter = self._reporter
        if reporter.callbacks_suppressed or not self._events.is_known(handle):
            return
        event = self._events.of_handle(handle)
        if self._note(_caller(), Kind.SYNC_EVENT, event, HOST):
            return
        self._host.verify_all_unmodified(is_last=False)
        with reporter.locked_monitor() as monitor:
            monitor.sync_event(event, reporter.site())

    def _before_wait(self, streams: Iterable[StreamId]) -> None:
        """Announce a wait of the host, before any recorded call is flushed to the monitor."""
        for stream in streams:
            for act in self._reporter.before_wait:
                act(stream)

    def _report_forbidden(self, call: str) -> bool:
        """Report a call that CUDA rejects during a capture; return whether a capture is in progress."""
        if self._captures:
            self._captures.report_forbidden(call)
            return True
        return False


def _caller() -> FrameType | None:
    """Return the Python frame from which C++ called the handler."""
    try:
        return frame_at(2)
    except ValueError:
        return None


def _ignore(*args: object) -> None:
    del args


def _both(first: Callable[..., Any], second: Callable[..., Any]) -> Callable[..., None]:
    def fire(*args: object) -> None:
        first(*args)
        second(*args)

    return fire
