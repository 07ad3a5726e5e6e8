"""The virtual GPUs: devices, streams, and the current ones of each thread. Only integers, no torch objects."""

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from types import FrameType
from typing import Any

from syncheck.hb.clock import MAX_STREAMS
from syncheck.hb.ids import UNKNOWN_SITE, AllocationId, Context, EventId, GraphId, ReadingId, SiteId, StreamId
from syncheck.instrument.failures import TOO_MANY_STREAMS
from syncheck.instrument.hook_lock import HookLock
from syncheck.instrument.locked_monitor import LockedMonitor
from syncheck.instrument.sites import SiteTable
from syncheck.sanitizer.monitor import Monitor
from syncheck.semantics.threads import ThreadState, context_of, take_lost_stream
from syncheck.sim.guarded_monitor import GuardedMonitor
from syncheck.sim.memory_counters import MemoryCounters

POOL_SIZE = 32
"""Number of streams per priority and device. Beyond that, existing streams are handed out round-robin.

Source: kStreamsPerPool in c10/cuda/CUDAStream.cpp.
"""
HIGHEST_PRIORITY = -3
"""The highest priority. The lowest is 0.

Source: max_compile_time_stream_priorities in c10/cuda/CUDAStream.h; `getStreamFromPool` clamps smaller numbers to it.
"""
TOTAL_MEMORY = 80 << 30
CallSites = SiteTable
"""The table that captures call sites, or `syncheck.sim.null_monitor.NoSites`."""


@dataclass(slots=True)
class VirtualDevice:
    """One virtual GPU.

    Attributes:
        pools: priority -> streams handed out so far.
        handed_out: priority -> number of requests for a stream of that pool.
        memory: counters of allocated memory.
        fraction: fraction of the memory that the program may use.
    """

    index: int
    default_stream: StreamId
    pools: dict[int, list[StreamId]] = field(default_factory=lambda: defaultdict(list))
    handed_out: Counter[int] = field(default_factory=Counter)
    memory: MemoryCounters = field(default_factory=MemoryCounters)
    fraction: float = 1.0

    def can_allocate(self, n_bytes: int) -> bool:
        """Return whether this much memory can be allocated."""
        limit = self.fraction * TOTAL_MEMORY - n_bytes
        return self.memory.upper <= limit or self.memory.current <= limit


class _Local(threading.local):
    """State of the calling thread."""

    def __init__(self) -> None:
        self.state = ThreadState()


class VirtualGpus:
    """Virtual GPUs of one process.

    Attributes:
        lock: guards the monitor and the state shared by all threads, here and in `Memory`.
        monitor: receives the operations of the program, one call at a time.
        locked_monitor: the same monitor; in a forked child, the parent's.
        guarded: the monitor that `monitor` forwards calls to. It lets no exception through.
        blocking: streams that are ordered with the legacy default stream of their device.
        next_allocation: returns a new allocation id, from 1. The four others do the same for their kinds of ids.
        next_event: short-lived objects other than events use these ids, too.

    Args:
        n_devices: number of virtual GPUs.
        monitor: receives the operations of the program.
        sites: captures call sites.
    """

    def __init__(self, n_devices: int, monitor: Monitor, sites: CallSites) -> None:
        self.lock = HookLock()
        self.guarded = GuardedMonitor(monitor)
        self.locked_monitor = LockedMonitor(self.guarded, self.lock)
        self.locked_monitor.deliver = self.guarded.deliver
        self.monitor: Monitor = self.locked_monitor
        self.sites = sites
        self._n_streams = 0
        self.next_allocation: Callable[[], AllocationId] = count(1).__next__  # type: ignore[assignment]  # an int
        self.next_event = map(EventId, count(1)).__next__
        self.next_graph = map(GraphId, count(1)).__next__
        self.next_reading = map(ReadingId, count(1)).__next__
        self.next_pool = count(1).__next__
        self._local = _Local()
        self._streams: list[tuple[int, int]] = [(-1, 0)]  # stream id -> (device, handle)
        self._by_handle: dict[tuple[int, int], StreamId] = {}
        self._priorities: dict[StreamId, int] = {}
        self.blocking: set[StreamId] = set()
        self.devices = [VirtualDevice(index, self._add_stream(index, 0, UNKNOWN_SITE)) for index in range(n_devices)]
        self.on_change: Callable[[], None] = lambda: None  # called when this thread's current streams have changed

    def notify(self, name: str, *arguments: Any) -> None:
        """Call a method of the monitor that returns nothing."""
        getattr(self.monitor, name)(*arguments)

    def become_child(self, monitor: GuardedMonitor) -> None:
        """Send calls to another monitor, and reset the lock, which a thread that no longer exists may have held."""
        self.lock.release_garbage()
        self.lock = HookLock()
        monitor.followers += self.guarded.followers[1:]  # all but its own
        monitor.followed = self.guarded.followed
        self.monitor = self.guarded = monitor

    @property
    def thread(self) -> ThreadState:
        """The calling thread's state."""
        return self._local.state

    def site(self) -> SiteId:
        """Return the call site of the program's innermost frame."""
        with self.guarded.guard:
            return self.sites.here()
        return UNKNOWN_SITE

    def site_of(self, frame: FrameType) -> SiteId:
        """Return the call site whose innermost frame is `frame`, which is not one of syncheck's."""
        try:
            return self.sites.capture(frame)
        except Exception as error:  # noqa: BLE001  boundary to the user's program
            self.guarded.fail(error)
        return UNKNOWN_SITE

    # -- streams

    def _add_stream(self, device: int, handle: int, site: SiteId, *, blocking: bool = False) -> StreamId:
        if self._n_streams == MAX_STREAMS:
            self.monitor.incomplete(TOO_MANY_STREAMS)
            stream = self._by_handle[device, handle] = self._newest(device)
            return stream
        self._n_streams += 1
        stream = StreamId(self._n_streams)
        self._streams.append((device, handle))
        self._by_handle[device, handle] = stream
        if blocking:
            self.blocking.add(stream)
        self.monitor.stream(stream, device, handle, site, legacy=handle == 0, blocking=blocking)
        return stream

    def _newest(self, device: int) -> StreamId:
        """Return the most recently added stream of a device."""
        return StreamId(max(stream for stream, (where, _) in enumerate(self._streams) if where == device))

    def new_stream(self, device: int, site: SiteId, priority: int = 0) -> StreamId:
        """Hand out a stream of the pool, round-robin once the pool is full."""
        virtual = self.devices[device]
        priority = max(priority, HIGHEST_PRIORITY)
        pool = virtual.pools[priority]
        with self.lock:
            number = virtual.handed_out[priority]
            virtual.handed_out[priority] += 1
            if number < POOL_SIZE:
                handle = 0x7000_0000 + (device << 16) + (-priority << 14) + 0x10 * (number + 1)
                pool.append(self._add_stream(device, handle, site))
                self._priorities.setdefault(pool[-1], priority)  # beyond MAX_STREAMS, an existing stream is reused
            return pool[number % POOL_SIZE]

    def priority_of(self, stream: StreamId) -> int:
        """Return a stream's priority."""
        return self._priorities.get(stream, 0)

    def external_stream(self, device: int, handle: int, site: SiteId) -> StreamId:
        """Return the stream for an external handle. 1 is the legacy default stream; unknown streams are blocking."""
        with self.lock:
            known = self._by_handle.get((device, 0 if handle == 1 else handle))
            return known if known is not None else self._add_stream(device, handle, site, blocking=True)

    def streams_of(self, device: int) -> list[StreamId]:
        """Return all streams of a device."""
        return [StreamId(stream) for stream, (where, _) in enumerate(self._streams) if where == device]

    def ordered_with(self, stream: StreamId) -> list[StreamId]:
        """Return the streams implicitly ordered with a stream: the legacy default stream and blocking streams."""
        if not self.blocking:
            return []
        device = self.device_of(stream)
        if stream == self.default_stream(device):
            return [other for other in sorted(self.blocking) if self.device_of(other) == device]
        return [self.default_stream(device)] if stream in self.blocking else []

    def device_of(self, stream: StreamId) -> int:
        """Return a stream's device."""
        return self._streams[stream][0]

    def handle_of(self, stream: StreamId) -> int:
        """Return a stream's handle, which is 0 for a default stream."""
        return self._streams[stream][1]

    def current_stream(self, device: int) -> StreamId:
        """Return the calling thread's current stream on a device."""
        streams = self._local.state.streams
        return streams[device] if device in streams else self.devices[device].default_stream

    def set_stream(self, stream: StreamId) -> None:
        """Make a stream and its device current, as `torch.cuda.set_stream` does."""
        state = self.thread
        device = self.device_of(stream)
        state.device = device
        state.streams[device] = stream
        state.set_explicitly = True
        self.on_change()

    @contextmanager
    def entered(self, stream: StreamId, site: SiteId) -> Iterator[None]:
        """Make a stream current for a block, then restore device and stream as torch's StreamContext does."""
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

    def default_stream(self, device: int) -> StreamId:
        """Return a device's default stream."""
        return self.devices[device].default_stream

    def context(self, device: int, other: int) -> Context | None:
        """Return the entered stream context that does not apply to work on these devices, or None if there is none."""
        return context_of(self.thread, device, other, self)

    def lost_context(self) -> Context | None:
        """Return the context of a thread that did not inherit its starter's current stream, otherwise None."""
        lost = self.thread.expected_stream
        return Context(lost, UNKNOWN_SITE) if lost else None

    def check_inherited(self, stream: StreamId, site: SiteId) -> None:
        """At a thread's first operator, report that it did not inherit its starter's device or stream."""
        expected = take_lost_stream(self.thread, stream, self)
        if expected:
            self.monitor.lost_context(stream, expected, site)
