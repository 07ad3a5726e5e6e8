"""Work that was complete before the interpreted function began, but is interpreted when the function needs its results.

This is the work of module-level statements: a function that is interpreted on its own runs one when it first uses a
name that it binds, possibly in a block with another current stream.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from syncheck.hb.ids import UNKNOWN_SITE, SiteId, StreamId
from syncheck.semantics.threads import ThreadState


class _Session(Protocol):
    def sync_stream(self, stream: StreamId, site: SiteId, *, explicit: bool) -> None: ...


class _Machine(Protocol):
    thread: ThreadState

    @property
    def session(self) -> _Session: ...

    def device_of(self, stream: StreamId) -> int: ...

    def default_stream(self, device: int) -> StreamId: ...

    def add_stream(self, device: int) -> StreamId: ...


class EarlierWork:
    """Runs such work on separate streams, so that waiting for it does not complete the function's own work."""

    def __init__(self) -> None:
        self._streams: dict[int, StreamId] | None = None  # by device; None while no such work is run

    @contextmanager
    def run(self, machine: _Machine) -> Iterator[None]:
        """Run a block as in a new thread; all its work is complete afterwards."""
        before = machine.thread, self._streams
        machine.thread, self._streams = ThreadState(), {}
        try:
            yield
        finally:  # also after a statement that is not interpreted to its end
            for stream in self._streams.values():
                machine.session.sync_stream(stream, UNKNOWN_SITE, explicit=False)
            machine.thread, self._streams = before

    def placed(self, stream: StreamId, machine: _Machine) -> StreamId:
        """Return the stream on which work for a stream is run: another one for a default stream, or the same."""
        device = machine.device_of(stream) if self._streams is not None else 0
        if self._streams is None or stream != machine.default_stream(device):
            return stream
        if device not in self._streams:
            self._streams[device] = machine.add_stream(device)
        return self._streams[device]
