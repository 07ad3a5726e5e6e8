"""Timing events, created and recorded directly by the driver: torch's own would be mistaken for the program's.

Source:
    CUDA Driver API, "Event Management" and "Context Management". Times have a resolution of half a microsecond, and are
    single-precision numbers, so that the time between distant events is imprecise.
"""

import ctypes
import time
from typing import Any

from syncheck.cuda import devices
from syncheck.errors import BackendError

_PENDING = 600  # CUDA_ERROR_NOT_READY


class DriverEvents:
    """Events of the CUDA driver, by handle.

    Raises:
        BackendError: the driver library cannot be loaded.
    """

    def __init__(self) -> None:
        driver = devices.driver()
        if driver is None:
            raise BackendError("the CUDA driver library was not found: no times can be measured", "omit --times")
        self._driver: Any = driver
        self._contexts: dict[int, ctypes.c_void_p] = {}

    def _context(self, device: int) -> ctypes.c_void_p:
        """Return the context that torch uses on a device, the primary context."""
        known = self._contexts.get(device)
        if known is None:
            ordinal, known = ctypes.c_int(), ctypes.c_void_p()
            self._driver.cuDeviceGet(ctypes.byref(ordinal), device)
            self._driver.cuDevicePrimaryCtxRetain(ctypes.byref(known), ordinal)
            self._contexts[device] = known
        return known

    def make(self, device: int) -> int:
        """Return a new event of a device; 0 on failure."""
        event = ctypes.c_void_p()
        self._driver.cuCtxPushCurrent_v2(self._context(device))
        try:
            failed = self._driver.cuEventCreate(ctypes.byref(event), 0)
        finally:
            self._driver.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))
        return 0 if failed else event.value or 0

    def record(self, event: int, device: int, stream: int) -> bool:
        """Record an event on a stream of its device, given by handle; return whether it succeeded."""
        self._driver.cuCtxPushCurrent_v2(self._context(device))  # handle 0 is the default stream of the current context
        try:
            return not self._driver.cuEventRecord(ctypes.c_void_p(event), ctypes.c_void_p(stream))
        finally:
            self._driver.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))

    def is_complete(self, event: int) -> bool:
        """Return whether an event is complete."""
        return bool(self._driver.cuEventQuery(ctypes.c_void_p(event)) != _PENDING)

    def wait(self, event: int) -> int:
        """Wait for an event; return the host clock afterwards, in nanoseconds."""
        self._driver.cuEventSynchronize(ctypes.c_void_p(event))
        return time.perf_counter_ns()

    def nanoseconds(self, start: int, end: int) -> int | None:
        """Return the time between two complete events; None if the driver has none."""
        found = devices.milliseconds(start, end)
        return None if found is None else round(found * 1e6)
