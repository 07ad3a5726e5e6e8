"""GPU work that a proof itself submits, hidden from the check."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from syncheck.cuda import devices
from syncheck.cuda.driver_events import DriverEvents
from syncheck.cuda.reporter import Reporter
from syncheck.instrument.torch_internals import BelowAutograd, C, DisableTorchFunction, disable_dispatch_modes

_CALIBRATION = 20_000_000
"""Cycles; about 10 ms."""
_MAX_BLOCKS = 32
"""The most blocks that are allocated while trying to get the freed memory."""


class InjectedWork:
    """Sleeps, copies, events and memory of a proof.

    Attributes:
        events: timing events.

    Args:
        reporter: ignores the resulting callbacks.
        events: see above.
    """

    def __init__(self, reporter: Reporter, events: DriverEvents) -> None:
        self._reporter = reporter
        self.events = events
        self._rates: dict[int, float] = {}
        self._private_streams: dict[int, Any] = {}

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Hide the work of a block from the check."""
        with self._reporter.suppressed(), disable_dispatch_modes(), BelowAutograd(), DisableTorchFunction():
            yield

    @contextmanager
    def on(self, device: int, handle: int) -> Iterator[None]:
        """Make a stream and its device current for the duration of a block.

        Source:
            torch/csrc/cuda/Module.cpp, `THCPModule_setStream_wrap`: it changes the device, too.
        """
        device_before = devices.current_device()
        before = C._cuda_getCurrentStream(device)
        self._make_current(self._stream(device, handle))
        try:
            yield
        finally:
            C._cuda_setStream(stream_id=before[0], device_index=before[1], device_type=before[2])
            C._cuda_setDevice(device_before)

    def _make_current(self, stream: Any) -> None:
        C._cuda_setStream(stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type)

    def _stream(self, device: int, handle: int) -> Any:
        return devices.cuda.ExternalStream(handle, device) if handle else torch.cuda.default_stream(device)

    def sleep(self, device: int, handle: int, seconds: float) -> None:
        """Keep a stream busy.

        Source:
            aten/src/ATen/cuda/Sleep.cu: a kernel of one thread that counts the cycles of its multiprocessor.
        """
        with self.hidden():
            rate = self._rates.get(device) or self._calibrate(device)
            with self.on(device, handle):
                C._cuda_sleep(int(seconds * rate))

    def _calibrate(self, device: int) -> float:
        """Measure and return the cycles per second on a stream of its own; also preloads libraries for later work."""
        stream = self._private_stream(device)
        handle = stream.cuda_stream
        marks = [self.events.make(device) for _ in range(2)]
        with self.on(device, handle):
            _warm_up(device)
            C._cuda_sleep(_CALIBRATION)  # the first kernel is loaded
            self.events.record(marks[0], device, handle)
            C._cuda_sleep(_CALIBRATION)
            self.events.record(marks[1], device, handle)
        self.events.wait(marks[1])
        duration = self.events.nanoseconds(*marks) or 1e7
        self._rates[device] = rate = _CALIBRATION / duration * 1e9
        return rate

    def _private_stream(self, device: int) -> Any:
        """Return a stream from the pool with the highest priority, which programs rarely use."""
        if device not in self._private_streams:
            self._private_streams[device] = devices.cuda.Stream(device, priority=-3)
        return self._private_streams[device]

    def fork(self, device: int) -> int:
        """Make a separate stream wait for a device's current stream, and return its handle."""
        with self.hidden():
            stream = self._private_stream(device)
            stream.wait_stream(torch.cuda.current_stream(device))
            return int(stream.cuda_stream)

    def copies(self, tensors: list[torch.Tensor], device: int, handle: int) -> list[torch.Tensor]:
        """Return copies of tensors, made on a stream."""
        with self.hidden(), self.on(device, handle):
            return [tensor.detach().clone() for tensor in tensors]

    def overwrite(self, address: int, n_bytes: int, device: int, handle: int, byte: int) -> bool:
        """Overwrite freed memory if the allocator hands it out on a stream; return whether it did.

        Args:
            address: start address.
            n_bytes: size in bytes.
            device: the device.
            handle: the stream that the memory was allocated on.
            byte: the fill value.
        """
        blocks: list[torch.Tensor] = []
        reserved = torch.cuda.memory_reserved(device)
        with self.hidden(), self.on(device, handle):
            for _ in range(_MAX_BLOCKS):
                try:
                    block = torch.empty(n_bytes, dtype=torch.uint8, device=f"cuda:{device}")
                except torch.OutOfMemoryError:
                    return False
                if torch.cuda.memory_reserved(device) > reserved:
                    return False  # the allocator made a new segment, so the freed block is unavailable
                blocks.append(block)
                if block.data_ptr() < address + n_bytes and address < block.data_ptr() + n_bytes:
                    block.fill_(byte)
                    return True
        return False

    def synchronize(self) -> None:
        """Wait for all GPUs that have been used."""
        if not devices.cuda.is_initialized():
            return
        with self.hidden():
            for device in range(torch.cuda.device_count()):
                if C._cuda_hasPrimaryContext(device):
                    torch.cuda.synchronize(device)

    def on_host(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a copy of a tensor in pageable host memory, after waiting for its values."""
        with self.hidden():
            return tensor.detach().cpu()


def _warm_up(device: int) -> None:
    """Use libraries whose first use makes the host wait for the whole GPU.

    Seen on an H100: a reduction (more local memory), cuBLAS (its kernels are loaded, even if all others were already).
    """
    for dtype in (torch.float32, torch.bfloat16):
        square = torch.ones(64, 64, dtype=dtype, device=f"cuda:{device}")
        (square @ square).sum()
