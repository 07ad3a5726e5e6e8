"""What a proof does on GPUs by itself: the check does not see it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from syncheck.cuda import devices
from syncheck.cuda.driver_events import DriverEvents
from syncheck.cuda.reporter import Reporter
from syncheck.instrument.torch_internals import BelowAutograd, C, DisableTorchFunction, disable_dispatch_modes

_CALIBRATION = 20_000_000
"""Cycles: about 10 ms."""
_MOST_BLOCKS = 32
"""Blocks that are asked for until one lies in the memory that was freed."""


class OwnWork:
    """Sleeps, copies, events and memory of a proof.

    Attributes:
        events: events with times.

    Args:
        reporter: ignores the callbacks that come of it.
        events: see above.
    """

    def __init__(self, reporter: Reporter, events: DriverEvents) -> None:
        self._reporter = reporter
        self.events = events
        self._rates: dict[int, float] = {}
        self._aside: dict[int, Any] = {}

    @contextmanager
    def unseen(self) -> Iterator[None]:
        """Do something that the check does not see."""
        with self._reporter.suppressed(), disable_dispatch_modes(), BelowAutograd(), DisableTorchFunction():
            yield

    @contextmanager
    def on(self, device: int, handle: int) -> Iterator[None]:
        """Make a stream the current one for the time of a block, and its device the current one.

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
        with self.unseen():
            rate = self._rates.get(device) or self._calibrate(device)
            with self.on(device, handle):
                C._cuda_sleep(int(seconds * rate))

    def _calibrate(self, device: int) -> float:
        """Return the cycles of a second, measured on a stream of its own; what follows finds its libraries loaded."""
        stream = self._own_stream(device)
        handle = stream.cuda_stream
        marks = [self.events.make(device) for _ in range(2)]
        with self.on(device, handle):
            _warm_up(device)
            C._cuda_sleep(_CALIBRATION)  # the first kernel is loaded
            self.events.record(marks[0], device, handle)
            C._cuda_sleep(_CALIBRATION)
            self.events.record(marks[1], device, handle)
        self.events.wait(marks[1])
        taken = self.events.nanoseconds(*marks) or 1e7
        self._rates[device] = rate = _CALIBRATION / taken * 1e9
        return rate

    def _own_stream(self, device: int) -> Any:
        """Return a stream of the pool of the highest priority: programs hardly use it."""
        if device not in self._aside:
            self._aside[device] = devices.cuda.Stream(device, priority=-3)
        return self._aside[device]

    def fork(self, device: int) -> int:
        """Return the handle of a stream of its own that waits for the current stream of a device."""
        with self.unseen():
            stream = self._own_stream(device)
            stream.wait_stream(torch.cuda.current_stream(device))
            return int(stream.cuda_stream)

    def copies(self, tensors: list[torch.Tensor], device: int, handle: int) -> list[torch.Tensor]:
        """Return copies of tensors as a stream sees them."""
        with self.unseen(), self.on(device, handle):
            return [tensor.detach().clone() for tensor in tensors]

    def overwrite(self, address: int, n_bytes: int, device: int, handle: int, byte: int) -> bool:
        """Overwrite freed memory, if the allocator hands it out on a stream; return whether it did.

        Args:
            address: where it begins.
            n_bytes: its size.
            device: its device.
            handle: the stream that it was allocated on.
            byte: what it is filled with.
        """
        blocks: list[torch.Tensor] = []
        reserved = torch.cuda.memory_reserved(device)
        with self.unseen(), self.on(device, handle):
            for _ in range(_MOST_BLOCKS):
                try:
                    block = torch.empty(n_bytes, dtype=torch.uint8, device=f"cuda:{device}")
                except torch.OutOfMemoryError:
                    return False
                if torch.cuda.memory_reserved(device) > reserved:
                    return False  # a new segment: what was freed is not to be had
                blocks.append(block)
                if block.data_ptr() < address + n_bytes and address < block.data_ptr() + n_bytes:
                    block.fill_(byte)
                    return True
        return False

    def settle(self) -> None:
        """Wait for all GPUs that have been used."""
        if not devices.cuda.is_initialized():
            return
        with self.unseen():
            for device in range(torch.cuda.device_count()):
                if C._cuda_hasPrimaryContext(device):
                    torch.cuda.synchronize(device)

    def on_host(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a copy of a tensor in plain host memory, once its values are there."""
        with self.unseen():
            return tensor.detach().cpu()


def _warm_up(device: int) -> None:
    """Use what makes the host wait for the whole GPU when it is used for the first time.

    Seen on an H100: a reduction (more local memory), cuBLAS (its kernels are loaded, also where all others were).
    """
    for dtype in (torch.float32, torch.bfloat16):
        square = torch.ones(64, 64, dtype=dtype, device=f"cuda:{device}")
        (square @ square).sum()
