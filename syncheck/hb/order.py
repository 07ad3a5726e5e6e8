"""What happens before what: streams, events and the host, without memory."""

from enum import Enum, auto

from syncheck.errors import TraceError
from syncheck.hb.clock import ACTOR_MASK, HOST, TICK, Epoch, VectorClock, covers, join
from syncheck.hb.ids import EventId, StreamId


class WaitResult(Enum):
    """What a wait did."""

    ORDERED = auto()
    REDUNDANT = auto()
    NEVER_RECORDED = auto()


class Order:
    """The happens-before order of streams, events and the host.

    Streams are numbered from 1 in the order of `add_stream`. The host is an actor that only knows: its own steps need
    no epoch, because every later op of any stream comes after them.
    """

    def __init__(self) -> None:
        self._host: VectorClock = [0]
        self._host_version = 0
        self._clocks: list[VectorClock] = [self._host]
        self._seen_host: list[int] = [0]
        self._snapshots: list[VectorClock | None] = [None]
        self._implicit: list[list[StreamId]] = [[]]
        self._devices: dict[int, list[StreamId]] = {}
        self._blocking: dict[int, list[StreamId]] = {}
        self._legacy: dict[int, StreamId] = {}
        self._events: dict[EventId, VectorClock] = {}

    # -- actors

    def add_stream(self, device: int, *, is_legacy: bool = False, is_blocking: bool = False) -> StreamId:
        """Add a stream and return its id.

        Args:
            device: the device it belongs to.
            is_legacy: it is the device's default stream, handle 0.
            is_blocking: it was made without cudaStreamNonBlocking: implicitly ordered with the legacy stream.

        Raises:
            TraceError: more streams than an epoch can name.

        Source:
            CUDA Runtime API, "Stream synchronization behavior", section "Legacy default stream".
        """
        stream = StreamId(len(self._clocks))
        if stream > ACTOR_MASK:
            raise TraceError(f"more than {ACTOR_MASK} streams")
        for clock in self._clocks:
            clock.append(0)
        clock = list(self._host)
        clock[stream] = stream  # time 0
        self._clocks.append(clock)
        self._seen_host.append(self._host_version)
        self._snapshots.append(None)
        self._implicit.append([])
        self._devices.setdefault(device, []).append(stream)
        self._link_implicit(device, stream, is_legacy=is_legacy, is_blocking=is_blocking)
        return stream

    def _link_implicit(self, device: int, stream: StreamId, *, is_legacy: bool, is_blocking: bool) -> None:
        blocking = self._blocking.setdefault(device, [])
        if is_legacy:
            self._legacy[device] = stream
            self._implicit[stream] = blocking
            for other in blocking:
                self._implicit[other] = [stream]
        elif is_blocking:
            blocking.append(stream)
            if device in self._legacy:
                self._implicit[stream] = [self._legacy[device]]

    def _now(self, stream: StreamId) -> VectorClock:
        """Return the stream's clock with what the host knows: it comes before whatever is submitted now."""
        clock = self._clocks[stream]
        if self._seen_host[stream] != self._host_version:
            self._seen_host[stream] = self._host_version
            if join(clock, self._host):
                self._snapshots[stream] = None
        return clock

    def _submit(self, stream: StreamId) -> VectorClock:
        """Return the stream's clock as of an op submitted now: legacy and blocking streams wait for each other."""
        clock = self._now(stream)
        for other in self._implicit[stream]:
            if join(clock, self._clocks[other]):
                self._snapshots[stream] = None
        return clock

    def _host_learns(self, clock: VectorClock) -> bool:
        changed = join(self._host, clock)
        if changed:
            self._host_version += 1
        return changed

    # -- events

    def record(self, event: EventId, stream: StreamId) -> None:
        """Take a snapshot of the stream into the event; it replaces the event's earlier one."""
        clock = self._submit(stream)
        snapshot = self._snapshots[stream]
        if snapshot is None:
            snapshot = self._snapshots[stream] = list(clock)
        self._events[event] = snapshot

    def wait(self, event: EventId, stream: StreamId) -> WaitResult:
        """Let the stream's later ops happen after the event's latest record; the host does not wait.

        Source:
            CUDA Runtime API, cudaStreamWaitEvent: a wait for an event never recorded does nothing.
        """
        snapshot = self._events.get(event)
        if snapshot is None:
            return WaitResult.NEVER_RECORDED
        return self._acquire(stream, snapshot)

    def wait_stream(self, stream: StreamId, other: StreamId) -> WaitResult:
        """Let the stream's later ops happen after all that `other` was given so far."""
        return self._acquire(stream, self._submit(other))

    def _acquire(self, stream: StreamId, snapshot: VectorClock) -> WaitResult:
        if not join(self._submit(stream), snapshot):
            return WaitResult.REDUNDANT
        self._snapshots[stream] = None
        return WaitResult.ORDERED

    def forget_event(self, event: EventId) -> None:
        """The event was destroyed: its id may be used for another one."""
        self._events.pop(event, None)

    def sync_event(self, event: EventId) -> WaitResult:
        """The host waits for the event's latest record."""
        snapshot = self._events.get(event)
        if snapshot is None:
            return WaitResult.NEVER_RECORDED
        return WaitResult.ORDERED if self._host_learns(snapshot) else WaitResult.REDUNDANT

    def sync_stream(self, stream: StreamId) -> bool:
        """The host waits for the stream; return whether it learned anything."""
        return self._host_learns(self._submit(stream))

    def sync_device(self, device: int) -> bool:
        """The host waits for all streams of one device; return whether it learned anything."""
        learned = [self._host_learns(self._submit(stream)) for stream in self._devices.get(device, ())]
        return any(learned)

    def _ahead(self, stream: StreamId) -> VectorClock:
        """Return what the stream's next op will come after: nothing is submitted yet."""
        clock = self._now(stream)
        if self._implicit[stream]:
            clock = list(clock)
            for other in self._implicit[stream]:
                join(clock, self._clocks[other])
        return clock

    # -- what the streams and the host know, for the explanation of a race

    def now(self, stream: StreamId) -> Epoch:
        """Return the epoch of the stream's last op."""
        return self._clocks[stream][stream]

    def clock(self, stream: StreamId) -> VectorClock:
        """Return what the stream knows now, a copy."""
        return list(self._now(stream))

    def submitted(self) -> VectorClock:
        """Return each stream's last op, a copy; entry 0 is the host's and stays 0."""
        return [clock[index] for index, clock in enumerate(self._clocks)]

    def stream_covers(self, stream: StreamId, epoch: Epoch) -> bool:
        """Return whether an op submitted to the stream now comes after `epoch`."""
        return covers(self._ahead(stream), epoch)

    def covers(self, actor: StreamId, epoch: Epoch) -> bool:
        """Return whether an actor, the host or a stream, knows `epoch`."""
        return covers(self._clocks[actor], epoch)

    def host_covers(self, epoch: Epoch) -> bool:
        """Return whether the host knows `epoch` to be complete."""
        return covers(self._host, epoch)

    def is_pending(self, snapshot: VectorClock, besides: int) -> bool:
        """Return whether a snapshot holds an op that the host does not know as complete, of an actor but `besides`."""
        return any(e >= TICK and i != besides and not covers(self._host, e) for i, e in enumerate(snapshot))

    def snapshot(self, event: EventId) -> VectorClock | None:
        """Return the event's latest snapshot, not to be changed; None if it was never recorded."""
        return self._events.get(event)

    def unfinished(self) -> dict[StreamId, Epoch]:
        """Return each stream whose last op the host does not know to be complete, with that op's epoch."""
        return {
            StreamId(s): c[s] for s, c in enumerate(self._clocks) if s != HOST and c[s] >= TICK and self._host[s] < c[s]
        }
