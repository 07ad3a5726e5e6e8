"""`torch.cuda.Stream` and `torch.Stream` for virtual devices."""

from typing import Any

import torch

from syncheck.hb.ids import NamedKind, ObjectKind, SiteId, StreamId, StreamOrigin, WaitCall
from syncheck.sim.device_kind import CUDA, gpu, simulated
from syncheck.sim.events import CudaEvent, SimulatedEvent
from syncheck.sim.runtime import ProgramObject, Runtime, active
from syncheck.sim.virtual_gpus import HIGHEST_PRIORITY


class SimulatedStream(ProgramObject):
    """A stream of a virtual device. Objects for the same stream compare equal.

    Source:
        torch/csrc/Stream.cpp and torch/cuda/streams.py: names and meanings of all members.
    """

    kind = NamedKind.STREAM
    _runtime: Runtime
    _ident: StreamId
    origin = StreamOrigin.BY_NAME

    def __new__(cls, device: Any = None, priority: int = 0, **kwargs: Any) -> Any:
        """Return a new stream from the pool, or the stream with a given id."""
        runtime = active()
        if "stream_id" in kwargs:
            index = kwargs.get("device_index", 0)
            stream = runtime.gpus.external_stream(index, kwargs["stream_id"], runtime.gpus.site())
            return cls.of(runtime, stream)
        index = runtime.index_of(device)
        if priority > 0:
            if simulated() is CUDA:
                raise RuntimeError(f"Expected cuda stream priority to be less than or equal to 0, got {priority}")
            priority = 0  # torch/xpu/streams.py: the nearest valid one
        site = runtime.gpus.site()
        stream = runtime.gpus.new_stream(index, site, priority)
        self = cls.of(runtime, stream)
        self._made(site)
        return self

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: `__new__` initializes the stream, as in torch."""

    @classmethod
    def of(cls, runtime: Runtime, stream: StreamId, origin: StreamOrigin = StreamOrigin.BY_NAME) -> Any:
        """Return an object for an existing stream. `origin` is the function that the program called to get it."""
        self = object.__new__(cls)
        self._runtime = runtime
        self._ident = stream
        if origin:
            self.origin = origin
        return self

    def _made(self, site: SiteId) -> None:
        runtime = self._runtime
        runtime.name_new(NamedKind.STREAM, self._ident, site)
        ident = runtime.gpus.next_event()
        runtime.gpus.monitor.object_created(ObjectKind.STREAM, ident, site)
        runtime.gpus.monitor.stream_object(ident, self._ident, site)
        runtime.on_finalize(self, ObjectKind.STREAM, ident)

    @property
    def ident(self) -> StreamId:
        """Syncheck's own id of the stream."""
        return self._ident

    @property
    def device(self) -> torch.device:
        """The stream's device."""
        return gpu(self.device_index)

    @property
    def device_index(self) -> int:
        """The index of the stream's device."""
        return self._runtime.gpus.device_of(self._ident)

    @property
    def device_type(self) -> int:
        """The number of the device type."""
        return simulated().number

    @property
    def stream_id(self) -> int:
        """Torch's id of the stream. Here it is the handle."""
        return self._runtime.gpus.handle_of(self._ident)

    cuda_stream = sycl_queue = native_handle = stream_id

    @property
    def priority(self) -> int:
        """The priority. A smaller number is a higher priority."""
        return self._runtime.gpus.priority_of(self._ident)

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """Return the (lowest, highest) priority of the simulated device."""
        return 0, HIGHEST_PRIORITY

    def is_capturing(self) -> bool:
        """Return whether the stream is being captured into a graph."""
        runtime = self._runtime
        if runtime.memory.alone.stream:
            return False
        return runtime.gpus.monitor.capturing(self._ident)

    def wait_event(self, event: SimulatedEvent) -> None:
        """Make later work of this stream wait for the event's latest record."""
        event.make_wait(self, WaitCall.STREAM_WAIT_EVENT)

    def wait_stream(self, stream: "SimulatedStream") -> None:
        """Make later work of this stream wait for all work already submitted to another stream."""
        gpus = self._runtime.gpus
        self._runtime.enter()
        origins = (self.origin, stream.origin)
        # the current stream to compare with: on the waiter's device if the waiter was looked up, else on the other's
        current = gpus.current_stream(self.device_index if self.origin else stream.device_index)
        if gpus.monitor.capturing(self._ident) and not gpus.monitor.capturing(stream.ident):
            self._runtime.reject_uncaptured()
        gpus.monitor.wait_stream(self._ident, stream.ident, gpus.site(), origins, current)

    def record_event(self, event: SimulatedEvent | None = None) -> SimulatedEvent:
        """Record an event on this stream, creating a new event if none is given."""
        if event is None:
            event = CudaEvent() if isinstance(self, CudaStream) else SimulatedEvent()
        event.record(self)
        return event

    def query(self) -> bool:
        """Return whether all work is complete. The first query about pending work returns False."""
        return self._runtime.answer_query(NamedKind.STREAM, self._ident)

    def synchronize(self) -> None:
        """Make the host wait for all work of this stream."""
        gpus = self._runtime.gpus
        self._runtime.enter()
        if gpus.monitor.capturing(self._ident):
            self._runtime.reject_in_capture("Stream.synchronize()")
        self._runtime.sync_debug.check()
        self._runtime.verify_all_unmodified(is_last=False)
        gpus.monitor.sync_stream(self._ident, gpus.site(), explicit=True)

    def __enter__(self) -> "SimulatedStream":
        self._entered: list[Any] = getattr(self, "_entered", [])
        block = self._runtime.gpus.entered(self._ident, self._runtime.gpus.site())
        self._runtime.enter()
        block.__enter__()
        self._entered.append(block)
        return self

    def __exit__(self, *error: object) -> None:
        self._runtime.enter()
        self._entered.pop().__exit__(*error)

    @property
    def _as_parameter_(self) -> Any:
        import ctypes  # noqa: PLC0415

        return ctypes.c_void_p(self.stream_id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SimulatedStream) and other._ident == self._ident

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.device_index, self.stream_id))

    def __reduce__(self) -> Any:
        raise TypeError(f"cannot pickle '{type(self).__name__}' object")

    def __repr__(self) -> str:
        return f"<torch.{simulated().name}.Stream device={self.device} {simulated().handle}={self.stream_id:#x}>"


class CudaStream(SimulatedStream):
    """Replacement for `torch.cuda.Stream`."""


for _kind in (SimulatedStream, CudaStream):
    _kind.__name__ = _kind.__qualname__ = "Stream"  # as in torch, because programs print it


class ExternalStream(CudaStream):
    """Replacement for `torch.cuda.ExternalStream`: a stream created outside of torch."""

    def __new__(cls, stream_ptr: int, device: Any = None, **kwargs: Any) -> Any:
        """Return the stream with a handle. An unknown handle is treated as a blocking stream."""
        del kwargs
        runtime = active()
        site = runtime.gpus.site()
        stream = runtime.gpus.external_stream(runtime.index_of(device), stream_ptr, site)
        runtime.name_new(NamedKind.STREAM, stream, site)
        return cls.of(runtime, stream)


class StreamContext:
    """Replacement for `torch.cuda.StreamContext`: makes a stream and its device current; None is a no-op."""

    def __init__(self, stream: SimulatedStream | None) -> None:
        self.stream = stream
        self._blocks: list[Any] = []

    def __enter__(self) -> None:
        runtime = active()
        runtime.enter()
        if self.stream is not None:
            block = runtime.gpus.entered(self.stream.ident, runtime.gpus.site())
            block.__enter__()
            self._blocks.append(block)

    def __exit__(self, *error: object) -> None:
        if self._blocks:
            active().enter()
            self._blocks.pop().__exit__(*error)
