"""The virtual gpus: devices, streams and what is current in each thread. Integers only, no torch."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from syncheck.instrument import threads
from syncheck.instrument.threads import ThreadState
from syncheck.sanitizer.monitor import Monitor, Sites

POOL_SIZE = 32
"""Streams a priority class and device; further ones are handed out round-robin.

Source: kStreamsPerPool in c10/cuda/CUDAStream.cpp.
"""
TOTAL_MEMORY = 80 << 30
HOST_DEVICE = -1


class CallSites(Sites, Protocol):
    """A table of call sites: `syncheck.instrument.sites.SiteTable`, or none."""

    def here(self) -> int:
        """Return the id of the caller's call stack."""
        ...

    def bound_directly(self, ident: int) -> str:
        """Return the name that the program binds what it makes itself at a call site to; "" if none."""
        ...


@dataclass(slots=True)
class VirtualDevice:
    """One virtual GPU; `pools`: priority class -> streams handed out so far."""

    index: int
    default_stream: int
    pools: dict[bool, list[int]] = field(default_factory=lambda: {False: [], True: []})
    handed_out: dict[bool, int] = field(default_factory=lambda: {False: 0, True: 0})
    allocated: int = 0
    peak: int = 0
    allocations: int = 0


class VirtualGpus:
    """Virtual GPUs of one process.

    Args:
        n_devices: how many.
        monitor: receives what happens.
        sites: captures call sites.
    """

    def __init__(self, n_devices: int, monitor: Monitor, sites: CallSites) -> None:
        self.monitor = monitor
        self.sites = sites
        self._ids = {"stream": 0, "allocation": 0, "event": 0, "graph": 0, "reading": 0, "pool": 0}
        self._local = threading.local()
        self._streams: list[tuple[int, int]] = [(HOST_DEVICE, 0)]  # id -> (device, handle)
        self._by_handle: dict[tuple[int, int], int] = {}
        self.devices = [VirtualDevice(index, self._add_stream(index, 0, 0)) for index in range(n_devices)]
        self.on_change: Callable[[], None] = lambda: None  # called when other streams are current in this thread

    def next_id(self, kind: str) -> int:
        """Return a new id, from 1."""
        self._ids[kind] += 1
        return self._ids[kind]

    @property
    def thread(self) -> ThreadState:
        """The calling thread's state."""
        try:
            return self._local.state  # type: ignore[no-any-return]  # threading.local is untyped
        except AttributeError:
            state = self._local.state = ThreadState()
            return state

    def site(self) -> int:
        """Return the call site of the program's innermost frame."""
        return self.sites.here()

    # -- streams

    def _add_stream(self, device: int, handle: int, site: int, *, blocking: bool = False) -> int:
        stream = self.next_id("stream")
        self._streams.append((device, handle))
        self._by_handle[device, handle] = stream
        self.monitor.stream(stream, device, handle, site, legacy=handle == 0, blocking=blocking)
        return stream

    def new_stream(self, device: int, site: int, *, high_priority: bool) -> int:
        """Hand out a stream of the pool, round-robin once all exist."""
        virtual = self.devices[device]
        pool = virtual.pools[high_priority]
        turn = virtual.handed_out[high_priority]
        virtual.handed_out[high_priority] += 1
        if turn < POOL_SIZE:
            handle = 0x7000_0000 + (device << 16) + (0x8000 if high_priority else 0) + 0x10 * (turn + 1)
            pool.append(self._add_stream(device, handle, site))
        return pool[turn % POOL_SIZE]

    def external_stream(self, device: int, handle: int, site: int) -> int:
        """Return the stream with a handle from outside; 1 is the legacy default stream, unknown ones are blocking."""
        known = self._by_handle.get((device, 0 if handle == 1 else handle))
        return known if known is not None else self._add_stream(device, handle, site, blocking=True)

    def device_of(self, stream: int) -> int:
        """Return a stream's device."""
        return self._streams[stream][0]

    def handle_of(self, stream: int) -> int:
        """Return a stream's handle; 0 is a default stream."""
        return self._streams[stream][1]

    def current_stream(self, device: int) -> int:
        """Return the calling thread's current stream of a device."""
        return self.thread.streams.get(device, self.devices[device].default_stream)

    def set_stream(self, stream: int) -> None:
        """Make a stream current, and its device: as `torch.cuda.set_stream` does."""
        state = self.thread
        device = self.device_of(stream)
        state.device = device
        state.streams[device] = stream
        state.set_explicitly = True
        self.on_change()

    @contextmanager
    def entered(self, stream: int, site: int) -> Iterator[None]:
        """Make a stream current for a block; restore device and stream as torch's StreamContext does."""
        state = self.thread
        device = self.device_of(stream)
        before, before_stream = state.device, self.current_stream(device)
        self.set_stream(stream)
        state.contexts.append((stream, site))
        try:
            yield
        finally:
            state.contexts.remove((stream, site))
            state.streams[device] = before_stream
            state.device = before
            self.on_change()

    def default_stream(self, device: int) -> int:
        """Return a device's default stream."""
        return self.devices[device].default_stream

    def mismatch(self, device: int, other: int) -> int:
        """Return the entered stream context that does not apply to work on these devices, encoded; 0 if none."""
        return threads.mismatch(self.thread, device, other, self)

    def check_inherited(self, stream: int, site: int) -> None:
        """On a thread's first op: report that it lost its starter's device or stream."""
        threads.check_inherited(self.thread, stream, site, self, self.monitor)
