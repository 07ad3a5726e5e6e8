"""`torch.cuda.Stream` and `torch.Stream` for virtual devices."""

from typing import Any

import torch

from syncheck.sim.events import CudaEvent, SimulatedEvent
from syncheck.sim.simulator import Simulator, active

_CUDA_TYPE = 1  # c10::DeviceType::CUDA


class SimulatedStream:
    """A stream of a virtual device; equal to every other object of the same stream.

    Source:
        torch/csrc/Stream.cpp and torch/cuda/streams.py: names and meanings of all members.
    """

    _simulator: Simulator
    _ident: int
    looked_up = ""

    def __new__(cls, device: Any = None, priority: int = 0, **kwargs: Any) -> Any:
        """Return a new stream of the pool, or the one with a given id."""
        simulator = active()
        if "stream_id" in kwargs:
            index = kwargs.get("device_index", 0)
            stream = simulator.gpus.external_stream(index, kwargs["stream_id"], simulator.gpus.site())
            return cls.of(simulator, stream)
        index = simulator.index_of(device)
        site = simulator.gpus.site()
        stream = simulator.gpus.new_stream(index, site, high_priority=priority < 0)
        self = cls.of(simulator, stream)
        self._made(site)
        return self

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Nothing to do: `__new__` did it, as in torch."""

    @classmethod
    def of(cls, simulator: Simulator, stream: int, looked_up: str = "") -> Any:
        """Return an object for an existing stream; `looked_up`: the function that the program called to get it."""
        self = object.__new__(cls)
        self._simulator = simulator
        self._ident = stream
        if looked_up:
            self.looked_up = looked_up
        return self

    def _made(self, site: int) -> None:
        simulator = self._simulator
        simulator.name_new("stream", self._ident, site)
        ident = simulator.gpus.next_id("event")
        simulator.gpus.monitor.object_created("stream", ident, site)
        simulator.on_finalize(self, "stream", ident)

    @property
    def ident(self) -> int:
        """Syncheck's own id."""
        return self._ident

    @property
    def device(self) -> torch.device:
        """The stream's device."""
        return torch.device("cuda", self.device_index)

    @property
    def device_index(self) -> int:
        """The index of the stream's device."""
        return self._simulator.gpus.device_of(self._ident)

    @property
    def device_type(self) -> int:
        """The number of the device type CUDA."""
        return _CUDA_TYPE

    @property
    def stream_id(self) -> int:
        """Torch's id of the stream: here, its handle."""
        return self._simulator.gpus.handle_of(self._ident)

    @property
    def native_handle(self) -> int:
        """The handle."""
        return self.stream_id

    @property
    def cuda_stream(self) -> int:
        """The handle."""
        return self.stream_id

    @property
    def priority(self) -> int:
        """-1 for a stream of the high-priority pool, else 0."""
        return -1 if self.stream_id & 0x8000 else 0

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """Return (least, greatest) priority of the simulated device."""
        return 0, -5

    def is_capturing(self) -> bool:
        """Tell whether the stream is being captured into a graph."""
        return self._simulator.gpus.monitor.capturing(self._ident)

    def wait_event(self, event: SimulatedEvent) -> None:
        """Make later work of this stream wait for the event's latest record."""
        event.be_waited_for(self, "stream")

    def wait_stream(self, stream: "SimulatedStream") -> None:
        """Make later work of this stream wait for all work given to another."""
        gpus = self._simulator.gpus
        self._simulator.enter()
        looked_up = (self.looked_up, stream.looked_up)
        # the stream whose wait is at stake: on the waiter's device if that was looked up, else on the other's
        current = gpus.current_stream(self.device_index if self.looked_up else stream.device_index)
        gpus.monitor.wait_stream(self._ident, stream.ident, gpus.site(), looked_up, current)

    def record_event(self, event: SimulatedEvent | None = None) -> SimulatedEvent:
        """Record an event on this stream, a new one if none is given."""
        if event is None:
            event = CudaEvent() if isinstance(self, CudaStream) else SimulatedEvent()
        event.record(self)
        return event

    def query(self) -> bool:
        """Tell whether all work is complete. A first question about pending work is answered with no."""
        return self._simulator.answer_query("stream", self._ident)

    def synchronize(self) -> None:
        """Wait on the host for all work of this stream."""
        gpus = self._simulator.gpus
        self._simulator.enter()
        if gpus.monitor.capturing(self._ident):
            self._simulator.refuse_in_capture("Stream.synchronize()")
        gpus.monitor.sync_stream(self._ident, gpus.site(), explicit=True)

    def __enter__(self) -> "SimulatedStream":
        self._entered: list[Any] = getattr(self, "_entered", [])
        block = self._simulator.gpus.entered(self._ident, self._simulator.gpus.site())
        self._simulator.enter()
        block.__enter__()
        self._entered.append(block)
        return self

    def __exit__(self, *error: object) -> None:
        self._simulator.enter()
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
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.stream_id:#x}>"


class CudaStream(SimulatedStream):
    """`torch.cuda.Stream`."""


class ExternalStream(CudaStream):
    """`torch.cuda.ExternalStream`: a stream that something else made."""

    def __new__(cls, stream_ptr: int, device: Any = None, **kwargs: Any) -> Any:
        """Return the stream with a handle; an unknown handle is a blocking stream."""
        del kwargs
        simulator = active()
        site = simulator.gpus.site()
        stream = simulator.gpus.external_stream(simulator.index_of(device), stream_ptr, site)
        simulator.name_new("stream", stream, site)
        return cls.of(simulator, stream)


class StreamContext:
    """`torch.cuda.StreamContext`: makes a stream and its device current for a block; None does nothing."""

    def __init__(self, stream: SimulatedStream | None) -> None:
        self.stream = stream
        self._blocks: list[Any] = []

    def __enter__(self) -> None:
        simulator = active()
        simulator.enter()
        if self.stream is not None:
            block = simulator.gpus.entered(self.stream.ident, simulator.gpus.site())
            block.__enter__()
            self._blocks.append(block)

    def __exit__(self, *error: object) -> None:
        if self._blocks:
            active().enter()
            self._blocks.pop().__exit__(*error)
