"""`torch.cuda.Event` and `torch.Event` for virtual devices."""

import time
from typing import Any, Self

import torch

from syncheck.hb.ids import EventId, NamedKind, ObjectKind, StreamOrigin, WaitCall
from syncheck.sim.device_kind import gpu, simulated
from syncheck.sim.errors import NotSimulatedError, cuda_error, not_simulated
from syncheck.sim.gpu_trace import event_handle
from syncheck.sim.runtime import ProgramObject, Runtime, StreamObject, active


class SimulatedEvent(ProgramObject):
    """An event of a virtual device.

    Source:
        torch/csrc/cuda/Event.cpp and aten/src/ATen/cuda/CUDAEvent.h: when an event is bound to a device, and its
        errors.
    """

    kind = NamedKind.EVENT

    _runtime: Runtime
    _timing: bool
    _device: int | None
    _recorded_at: float | None
    queried: bool
    _is_external: bool
    _captured_in: int  # number of the capture in which it was recorded; 0 for none
    _ident: EventId

    def __new__(
        cls,
        device: Any = None,
        *,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        external: bool = False,
    ) -> Self:
        """Return a new event. As in torch, this does everything, so that a subclass may have another constructor."""
        del blocking
        if interprocess:
            raise NotSimulatedError("an interprocess event")
        self = super().__new__(cls)
        self._runtime = active()
        self._timing = enable_timing
        self._device = None if device is None else self._runtime.index_of(device)
        self._recorded_at = None
        self.queried = False
        self._is_external = external
        self._captured_in = 0
        gpus = self._runtime.gpus
        site = gpus.site()
        self._ident = gpus.next_event()
        gpus.monitor.event(self._ident, site, timing=enable_timing, external=external)
        self._runtime.name_new(NamedKind.EVENT, self._ident, site)
        if enable_timing:
            gpus.monitor.object_created(ObjectKind.TIMING_EVENT, self._ident, site)
        self._runtime.on_finalize(self, ObjectKind.TIMING_EVENT, self._ident)
        return self

    @property
    def ident(self) -> EventId:
        """Syncheck's own id of the event."""
        return self._ident

    @property
    def device(self) -> torch.device | None:
        """The device on which it was first recorded; None before."""
        return None if self._device is None else gpu(self._device)

    @property
    def event_id(self) -> int:
        """The handle; 0 before the first record."""
        return 0 if self._recorded_at is None else event_handle(self._ident)

    cuda_event = sycl_event = event_id

    @property
    def _as_parameter_(self) -> Any:
        import ctypes  # noqa: PLC0415  only few programs need it

        return ctypes.c_void_p(self.event_id)

    def record(self, stream: StreamObject | None = None) -> None:
        """Record the work submitted to a stream so far, by default the current stream."""
        runtime = self._runtime
        runtime.enter()
        index, ident = runtime.resolve(stream)
        if self._device is None:
            self._device = index
        if self._device != index:
            raise RuntimeError(f"Event device {self._device} does not match recording stream's device {index}.")
        self._recorded_at = time.perf_counter()
        self.queried = False
        origin = StreamOrigin.BY_NAME if stream is None else stream.origin
        gpus = runtime.gpus
        self._captured_in = runtime.n_captures if gpus.monitor.capturing(ident) else 0
        gpus.monitor.record(self._ident, ident, gpus.site(), origin, gpus.current_stream(index))

    def wait(self, stream: StreamObject | None = None) -> None:
        """Make later work of a stream, by default the current stream, wait for this event. The host does not wait."""
        self.make_wait(stream, WaitCall.EVENT_WAIT)

    def make_wait(self, stream: StreamObject | None, via: WaitCall) -> None:
        """Make a stream wait for this event."""
        runtime = self._runtime
        runtime.enter()
        index, ident = runtime.resolve(stream)
        origin = StreamOrigin.BY_NAME if stream is None else stream.origin
        gpus = runtime.gpus
        is_outside = self._recorded_at is not None and self._captured_in != runtime.n_captures
        if is_outside and not self._is_external and gpus.monitor.capturing(ident):
            runtime.reject_uncaptured()
        gpus.monitor.wait(self._ident, ident, gpus.site(), via, origin, gpus.current_stream(index))

    def query(self) -> bool:
        """Return whether the recorded work is complete. The first query about pending work returns False."""
        if self._recorded_at is None:
            return True
        return self._runtime.answer_query(NamedKind.EVENT, self._ident, self)

    def synchronize(self) -> None:
        """Make the host wait for the recorded work."""
        runtime = self._runtime
        runtime.enter()
        runtime.reject_during_capture("Event.synchronize()")
        runtime.verify_all_unmodified(is_last=False)
        runtime.gpus.monitor.sync_event(self._ident, runtime.gpus.site())

    def elapsed_time(self, end_event: "SimulatedEvent") -> float:
        """Return the milliseconds between two records, measured on the host.

        Source:
            aten/src/ATen/cuda/CUDAEvent.h, `elapsed_time`: the errors and their messages.
        """
        runtime = self._runtime
        runtime.enter()
        runtime.gpus.monitor.elapsed(self._ident, end_event.ident, runtime.gpus.site())
        runtime.name_findings()
        if not (self._timing and end_event._timing):  # same class
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        began, ended = self._recorded_at, end_event._recorded_at
        if began is None or ended is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        if self._device != end_event._device:
            raise cuda_error("invalid resource handle")
        return (ended - began) * 1000

    ipc_handle = not_simulated("Event.ipc_handle()")
    from_ipc_handle = not_simulated("Event.from_ipc_handle()")

    def __repr__(self) -> str:
        return (
            f"<torch.{simulated().name}.Event uninitialized>"
            if self._recorded_at is None
            else f"<torch.{simulated().name}.Event {self.event_id:#x}>"
        )


class CudaEvent(SimulatedEvent):
    """Replacement for `torch.cuda.Event`."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Return a new event."""
        names = ("enable_timing", "blocking", "interprocess", "external")  # also accepted positionally by torch
        return super().__new__(cls, **dict(zip(names, args, strict=False)), **kwargs)


for _kind in (SimulatedEvent, CudaEvent):
    _kind.__name__ = _kind.__qualname__ = "Event"  # as in torch, because programs print it
