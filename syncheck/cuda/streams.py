"""All streams that the program uses, by device and handle."""

import threading
from typing import TYPE_CHECKING

from syncheck.cuda import devices

if TYPE_CHECKING:
    from syncheck.cuda.backend import Cuda

_LEGACY, _PER_THREAD = 1, 2
"""Special handles. Source: CUDA Runtime API, cudaStreamLegacy and cudaStreamPerThread."""


class Streams:
    """Gives each stream its id, and announces it at first sight.

    Attributes:
        saw_side_stream: a stream other than the default ones was seen.
        only: the stream that all work and all memory was on so far; 0 before any, -1 once there may be others.
    """

    def __init__(self, cuda: "Cuda") -> None:
        self._cuda = cuda
        self._known: list[tuple[int, int]] = [(-1, 0)]  # id -> (device, handle)
        self._by_key: dict[tuple[int, int], int] = {}
        self.saw_side_stream = False
        self.sole_stream = 0
        self.by_handle: dict[int, dict[int, int]] = {}  # device -> handle -> id, for the hot path

    def of(self, device: int, handle: int, *, is_torchs: bool = False) -> int:
        """Return the id of a stream.

        Args:
            device: its device.
            handle: its handle.
            is_torchs: if it is new, C++ code has made it: that of Python is seen as it is made.
        """
        ids = self.by_handle.setdefault(device, {})
        known = ids.get(handle)
        if known is not None and handle != _PER_THREAD:
            return known
        with self._cuda.lock:
            return self._first_seen(device, handle, ids, 0 if is_torchs else self._cuda.site())

    def _first_seen(self, device: int, handle: int, ids: dict[int, int], site: int) -> int:
        if handle == _LEGACY:
            known = ids[handle] = self.of(device, 0)
            return known
        # the per-thread default stream has one handle and is another stream in each thread
        key = (device, handle if handle != _PER_THREAD else -threading.get_ident())
        found = self._by_key.get(key)
        known = self._by_key[key] = self._announce(device, handle, site) if found is None else found
        if handle != _PER_THREAD:
            ids[handle] = known
        return known

    def _announce(self, device: int, handle: int, site: int) -> int:
        ident = len(self._known)
        self._known.append((device, handle))
        if handle:
            self._set_sole_stream(-1)
            if not self.saw_side_stream:
                self._cuda.memory.watch_frees()
                self.saw_side_stream = True
        blocking = handle == _PER_THREAD or (handle != 0 and devices.is_blocking(handle))
        self._cuda.monitor.stream(ident, device, handle, site, legacy=handle == 0, blocking=blocking)
        return ident

    def used(self, stream: int) -> bool:
        """Note that there is work or memory on a stream; tell whether all was on it so far."""
        if self.sole_stream != stream:
            self._set_sole_stream(-1 if self.sole_stream else stream)
        return self.sole_stream == stream

    def _set_sole_stream(self, stream: int) -> None:
        """From now on, all was on a stream so far; -1, for good, if there are others."""
        if self.sole_stream < 0:
            return
        self.sole_stream = stream
        if stream < 0:
            self._cuda.gpu_trace.enable()

    def current(self, device: int) -> int:
        """Return the calling thread's current stream of a device."""
        return self.of(device, devices.raw_stream(device))

    def device_of(self, stream: int) -> int:
        """Return a stream's device."""
        return self._known[stream][0]

    def handle_of(self, stream: int) -> int:
        """Return a stream's handle; 0 is a default stream."""
        return self._known[stream][1]

    def default_stream(self, device: int) -> int:
        """Return a device's default stream."""
        return self.of(device, 0)
