"""The streams that the program uses, by device and handle."""

import threading
from collections.abc import Callable
from typing import Any

from syncheck.cuda import devices
from syncheck.cuda.reporter import Reporter
from syncheck.hb.clock import HOST, MAX_STREAMS
from syncheck.hb.ids import UNKNOWN_SITE, SiteId, StreamId
from syncheck.instrument.failures import TOO_MANY_STREAMS

_LEGACY, _PER_THREAD = 1, 2
"""Special handles. Source: CUDA Runtime API, cudaStreamLegacy and cudaStreamPerThread."""
NOT_SOLE = StreamId(-1)
"""Value of `Streams.sole_stream` once there may be work or memory on several streams."""


class Streams:
    """Assigns each stream its id, and announces it when it is first seen.

    Attributes:
        saw_side_stream: a stream other than a default stream was seen.
        sole_stream: the stream that has all work and memory so far; 0 before any, NOT_SOLE once there may be others.
        by_handle: device -> handle -> id, for the hot path.
        on_side_stream: called when the first non-default stream appears.
        on_sole: called when the first stream gets work or memory.
        on_multiple_streams: called when there may be work on several streams for the first time.
    """

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._known: list[tuple[int, int]] = [(-1, 0)]  # id -> (device, handle)
        self._by_key: dict[tuple[int, int], StreamId] = {}
        self.saw_side_stream = False
        self.sole_stream = HOST
        self.by_handle: dict[int, dict[int, StreamId]] = {}
        self.on_side_stream: list[Callable[[], None]] = []
        self.on_sole: list[Callable[[], None]] = []
        self.on_multiple_streams: list[Callable[[], None]] = []

    def of(self, device: int, handle: int, *, is_created_in_cpp: bool = False) -> StreamId:
        """Return the id of a stream.

        Args:
            device: the stream's device.
            handle: the stream's handle.
            is_created_in_cpp: a stream that is new was created by C++ code; Python streams are announced on creation.
        """
        ids = self.by_handle.setdefault(device, {})
        known = ids.get(handle)
        if known is not None and handle != _PER_THREAD:
            return known
        with self._reporter.lock:
            return self._first_seen(device, handle, ids, SiteId(0) if is_created_in_cpp else self._reporter.site())

    def without_handle(self, device: int) -> StreamId:
        """Return a new stream for work that torch runs beside that of other streams."""
        with self._reporter.lock:
            return self._announce(device, -len(self._known), UNKNOWN_SITE)

    def _first_seen(self, device: int, handle: int, ids: dict[int, StreamId], site: SiteId) -> StreamId:
        if handle == _LEGACY:
            known = ids[handle] = self.of(device, 0)
            return known
        # the per-thread default stream has one handle but is a different stream in each thread
        key = (device, handle if handle != _PER_THREAD else -threading.get_ident())
        found = self._by_key.get(key)
        known = self._by_key[key] = self._announce(device, handle, site) if found is None else found
        if handle != _PER_THREAD:
            ids[handle] = known
        return known

    def _announce(self, device: int, handle: int, site: SiteId) -> StreamId:
        if len(self._known) > MAX_STREAMS:
            self._reporter.monitor.incomplete(TOO_MANY_STREAMS)
            return self.on_device(device)[-1]
        ident = StreamId(len(self._known))
        self._known.append((device, handle))
        if handle:
            self._set_sole_stream(NOT_SOLE)
            if not self.saw_side_stream:
                for act in self.on_side_stream:
                    act()
                self.saw_side_stream = True
        blocking = handle == _PER_THREAD or (handle > 0 and devices.is_blocking(handle))
        self._reporter.monitor.stream(ident, device, handle, site, legacy=handle == 0, blocking=blocking)
        return ident

    def used(self, stream: StreamId) -> bool:
        """Note work or memory on a stream; return whether everything so far was on that stream."""
        if self.sole_stream != stream:
            self._set_sole_stream(NOT_SOLE if self.sole_stream else stream)
        return self.sole_stream == stream

    def _set_sole_stream(self, stream: StreamId) -> None:
        """Set the sole stream; NOT_SOLE is final."""
        if self.sole_stream < 0:
            return
        self.sole_stream = stream
        for act in self.on_multiple_streams if stream < 0 else self.on_sole:
            act()

    def before_wait(self) -> None:
        """Flush the recorded calls before the host waits inside an operator, to process them while the GPU works."""
        if self.sole_stream == NOT_SOLE:  # otherwise nothing recorded so far can race
            self._reporter.flush_calls()

    def current(self, device: int) -> StreamId:
        """Return the calling thread's current stream of a device."""
        return self.of(device, devices.raw_stream(device))

    def of_object(self, stream: Any) -> StreamId:
        """Return the id of a stream object of any of torch's classes; of the current stream for None."""
        if stream is None:
            return self.current(devices.current_device())
        return self.of(stream.device_index, _handle(stream))

    def known(self, stream: Any) -> StreamId:
        """Return the id of a stream object of any of torch's classes; HOST if it has not been seen."""
        if stream.device.type != "cuda":
            return HOST
        return self.by_handle.get(stream.device_index, {}).get(_handle(stream), HOST)

    def device_of(self, stream: StreamId) -> int:
        """Return a stream's device."""
        return self._known[stream][0]

    def on_device(self, device: int) -> list[StreamId]:
        """Return the streams of a device."""
        return [StreamId(ident) for ident, (where, _) in enumerate(self._known) if where == device]

    def handle_of(self, stream: StreamId) -> int:
        """Return a stream's handle; 0 means a default stream."""
        return self._known[stream][1]

    def default_stream(self, device: int) -> StreamId:
        """Return a device's default stream."""
        return self.of(device, 0)


def _handle(stream: Any) -> int:
    """Return the handle of a stream object; those of torch's generic class have no such attribute."""
    handle = getattr(stream, "cuda_stream", None)
    if handle is None:
        same = devices.cuda.Stream(
            stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type
        )
        handle = same.cuda_stream
    return int(handle)
