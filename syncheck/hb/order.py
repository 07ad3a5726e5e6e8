"""The happens-before order of streams, events and the host, without memory."""

from enum import Enum, auto
from typing import TypeAlias

from syncheck.errors import TraceError
from syncheck.hb.clock import HOST, MAX_STREAMS, TICK, Epoch, VectorClock, covers, join
from syncheck.hb.hosts import Hosts, Moment
from syncheck.hb.ids import EVERY_THREAD, EventId, HostId, StreamId, SyncId


class WaitResult(Enum):
    """The outcome of a wait."""

    ORDERED = auto()
    REDUNDANT = auto()
    NEVER_RECORDED = auto()
    UNORDERED = auto()
    """The event was recorded, but by a thread that is unordered with the waiting one: the record may come later."""


_RECORDS_KEPT = 4
Recorded: TypeAlias = tuple[HostId, Moment, VectorClock | None]
"""(thread, moment, snapshot) of an event's record; the snapshot is None before the first record."""


class Order:
    """The happens-before order of streams, events and the host.

    Streams are numbered from 1 in the order of `add_stream`. The host is an actor without epochs of its own: its steps
    need none, because every later op of any stream comes after them. With several threads, each has its own state, and
    "the host" is the thread whose calls are being checked.
    """

    def __init__(self) -> None:
        self._hosts = hosts = Hosts()
        self.release, self.forget_sync, self.host_follows = hosts.release, hosts.forget, hosts.follows
        self._host: VectorClock = self._hosts.current.clock
        self._host_version = 0
        self._clocks: list[VectorClock] = [self._host]
        self._seen_host: list[int] = [0]
        self._snapshots: list[VectorClock | None] = [None]
        self._implicit: list[list[StreamId]] = [[]]
        self._devices: dict[int, list[StreamId]] = {}
        self._blocking: dict[int, list[StreamId]] = {}
        self._legacy: dict[int, StreamId] = {}
        self._events: dict[EventId, VectorClock] = {}
        self._records: dict[EventId, list[Recorded]] = {}  # the latest few per event, once there are several threads

    # -- threads of the program

    @property
    def host(self) -> HostId:
        """The thread whose calls are being checked."""
        return self._hosts.ident

    def switch_host(self, host: HostId) -> None:
        """Attribute the following calls to a thread; a new thread is ordered after nothing.

        Under EVERY_THREAD, work that a call waits for becomes complete for all threads.
        """
        self._hosts.switch(host)
        self._host_changed()

    def acquire(self, sync: SyncId) -> None:
        """Order everything released to an object before the host's next step."""
        self._hosts.acquire(sync)
        self._host_changed()

    def acquire_all(self) -> None:
        """Order what any thread has done so far before the host's next step."""
        self._hosts.acquire_all()
        self._host_changed()

    def host_step(self) -> Moment:
        """Count a step of the host and return its moment; 0 while there is only one thread."""
        return self._hosts.step() if self._hosts.has_threads else 0

    def _host_changed(self) -> None:
        """Update cached state after a thread switch, or after more work became complete for the host."""
        current = self._hosts.current
        self._host = self._clocks[HOST] = current.clock
        self._host_version = current.version

    # -- actors

    def add_stream(self, device: int, *, is_legacy: bool = False, is_blocking: bool = False) -> StreamId:
        """Add a stream and return its id.

        Args:
            device: the device it belongs to.
            is_legacy: the stream is the device's default stream, handle 0.
            is_blocking: the stream was created without cudaStreamNonBlocking and is therefore implicitly ordered with
                the legacy stream.

        Raises:
            TraceError: there are more streams than an epoch can name.

        Source:
            CUDA Runtime API, "Stream synchronization behavior", section "Legacy default stream".
        """
        stream = StreamId(len(self._clocks))
        if stream > MAX_STREAMS:
            raise TraceError(f"more than {MAX_STREAMS} streams")
        self._hosts.add_actor()
        for clock in self._clocks[1:]:
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
        """Return the stream's clock joined with the host's, which precedes everything submitted from now on."""
        clock = self._clocks[stream]
        if self._seen_host[stream] != self._host_version:
            self._seen_host[stream] = self._host_version
            if join(clock, self._host):
                self._snapshots[stream] = None
        return clock

    def _submit(self, stream: StreamId) -> VectorClock:
        """Return the stream's clock as of an op submitted now; legacy and blocking streams wait for each other."""
        clock = self._now(stream)
        for other in self._implicit[stream]:
            if join(clock, self._clocks[other]):
                self._snapshots[stream] = None
        return clock

    def _mark_complete(self, clock: VectorClock) -> bool:
        changed = self._hosts.mark_complete(clock)
        self._host_version = self._hosts.current.version
        return changed

    # -- alternatives: what may have happened in place of what happens next

    def clocks(self) -> list[VectorClock]:
        """Return a copy of the clocks of all actors; none if the program has several threads, which have their own.

        `rewind` and `advance` have no effect without clocks.
        """
        return [] if self._hosts.has_threads else [list(clock) for clock in self._clocks]

    def rewind(self, clocks: list[VectorClock]) -> list[VectorClock]:
        """Forget all waits since `clocks` was taken, between which nothing may have been submitted.

        Returns:
            The clocks with these waits, for `advance`.
        """
        if not clocks:
            return []
        later = self.clocks()
        for clock, earlier in zip(self._clocks, clocks, strict=False):
            clock[: len(earlier)] = earlier
        self._clocks_changed()
        return later

    def advance(self, clocks: list[VectorClock]) -> None:
        """Order what other clocks cover, too."""
        if not clocks:
            return
        for clock, other in zip(self._clocks, clocks, strict=False):
            join(clock, other)
        self._clocks_changed()

    def _clocks_changed(self) -> None:
        self._snapshots = [None] * len(self._snapshots)
        self._hosts.renew()
        self._host_version = self._hosts.current.version

    # -- events

    def record(self, event: EventId, stream: StreamId) -> None:
        """Store a snapshot of the stream's clock in the event, replacing any earlier one."""
        clock = self._submit(stream)
        snapshot = self._snapshots[stream]
        if snapshot is None:
            snapshot = self._snapshots[stream] = list(clock)
        if self._hosts.has_threads:
            self._note_record(event, snapshot)
        self._events[event] = snapshot

    def _note_record(self, event: EventId, snapshot: VectorClock) -> None:
        """Store which thread recorded an event."""
        hosts = self._hosts
        records = self._records.setdefault(event, [(EVERY_THREAD, 0, self._events.get(event))])
        records.append((hosts.ident, hosts.step(), snapshot))
        if len(records) > _RECORDS_KEPT:
            del records[0]
            records[0] = (EVERY_THREAD, 0, records[0][2])  # assume that all threads are ordered after the oldest

    def _snapshot_before(self, event: EventId) -> VectorClock | None:
        """Return the snapshot of the latest record that comes before the host's next step; None if there is none."""
        records = self._records.get(event)
        if records is None:
            return self._events.get(event)
        return next(snapshot for host, moment, snapshot in reversed(records) if self._hosts.follows(host, moment))

    def unordered_record(self, event: EventId) -> HostId | None:
        """Return the thread that last recorded the event if the host does not come after that record, else None."""
        records = self._records.get(event)
        if records is None or self._hosts.follows(*records[-1][:2]):
            return None
        return records[-1][0]

    def _without_snapshot(self, event: EventId) -> WaitResult:
        return WaitResult.NEVER_RECORDED if event not in self._events else WaitResult.UNORDERED

    def wait(self, event: EventId, stream: StreamId) -> WaitResult:
        """Order the event's latest record before the stream's later ops; the host does not wait.

        Source:
            CUDA Runtime API, cudaStreamWaitEvent: a wait for an event never recorded does nothing.
        """
        snapshot = self._snapshot_before(event)
        if snapshot is None:
            return self._without_snapshot(event)
        return self._acquire(stream, snapshot)

    def wait_stream(self, stream: StreamId, other: StreamId) -> WaitResult:
        """Order everything submitted to `other` so far before the stream's later ops."""
        return self._acquire(stream, self._submit(other))

    def _acquire(self, stream: StreamId, snapshot: VectorClock) -> WaitResult:
        if not join(self._submit(stream), snapshot):
            return WaitResult.REDUNDANT
        self._snapshots[stream] = None
        return WaitResult.ORDERED

    def follow(self, stream: StreamId, clock: VectorClock) -> None:
        """Order everything that `clock`, the clock of some stream, covers before the stream's later ops."""
        self._acquire(stream, clock)

    def forget_event(self, event: EventId) -> None:
        """Drop a destroyed event, whose id may be reused."""
        self._events.pop(event, None)
        self._records.pop(event, None)

    def sync_event(self, event: EventId) -> WaitResult:
        """Make the host wait for the event's latest record."""
        snapshot = self._snapshot_before(event)
        if snapshot is None:
            return self._without_snapshot(event)
        return WaitResult.ORDERED if self._mark_complete(snapshot) else WaitResult.REDUNDANT

    def sync_stream(self, stream: StreamId) -> bool:
        """Make the host wait for the stream; return whether any of its work was still pending."""
        return self._mark_complete(self._ahead(stream))

    def sync_device(self, device: int) -> bool:
        """Make the host wait for all streams of a device; return whether any of their work was still pending."""
        learned = [self._mark_complete(self._ahead(stream)) for stream in self._devices.get(device, ())]
        return any(learned)

    def has_unobserved_work(self, device: int) -> bool:
        """Return whether a device has unfinished work that no stream of another device is ordered after."""
        streams = self._devices.get(device, ())
        others = [clock for stream, clock in enumerate(self._clocks) if stream != HOST and stream not in streams]
        unfinished = [epoch for stream, epoch in self.unfinished().items() if stream in streams]
        return any(not any(covers(clock, epoch) for clock in others) for epoch in unfinished)

    def complete_all(self) -> None:
        """Mark all work so far as complete for every thread."""
        has_threads, host = self._hosts.has_threads, self._hosts.ident
        if has_threads:
            self.switch_host(EVERY_THREAD)
        self._mark_complete(self.submitted())
        if has_threads:
            self.switch_host(host)

    def _ahead(self, stream: StreamId) -> VectorClock:
        """Return the clock that the stream's next op would start from, without submitting anything."""
        if self._hosts.has_threads:  # the next op may come from another thread, so do not update the stream's clock
            clock = list(self._clocks[stream])
            join(clock, self._host)
        else:
            clock = self._now(stream)
        if self._implicit[stream]:
            clock = list(clock)
            for other in self._implicit[stream]:
                join(clock, self._clocks[other])
        return clock

    # -- queries, for the explanation of a race

    def now(self, stream: StreamId) -> Epoch:
        """Return the epoch of the stream's last op."""
        return self._clocks[stream][stream]

    def clock(self, stream: StreamId) -> VectorClock:
        """Return a copy of the stream's current clock."""
        return list(self._now(stream))

    def submitted(self) -> VectorClock:
        """Return a new clock with each stream's last op; entry 0 is the host's and stays 0."""
        return [clock[index] for index, clock in enumerate(self._clocks)]

    def stream_covers(self, stream: StreamId, epoch: Epoch) -> bool:
        """Return whether an op submitted to the stream now comes after `epoch`."""
        return covers(self._ahead(stream), epoch)

    def unordered(self, stream: StreamId) -> list[StreamId]:
        """Return the streams that have work which an op submitted now to the given stream would not come after."""
        ahead = self._ahead(stream)
        return [
            StreamId(other)
            for other, epoch in enumerate(self.submitted())
            if other != stream and epoch >= TICK and not covers(ahead, epoch)
        ]

    def covers(self, actor: StreamId, epoch: Epoch) -> bool:
        """Return whether the clock of an actor, the host or a stream, covers `epoch`."""
        return covers(self._clocks[actor], epoch)

    def host_covers(self, epoch: Epoch) -> bool:
        """Return whether `epoch` is complete for the host."""
        return covers(self._host, epoch)

    def is_pending(self, snapshot: VectorClock, excluded: int) -> bool:
        """Return whether a snapshot has an op, of an actor other than `excluded`, that is not complete for the host."""
        return any(e >= TICK and i != excluded and not covers(self._host, e) for i, e in enumerate(snapshot))

    def snapshot(self, event: EventId) -> VectorClock | None:
        """Return the event's latest snapshot, read-only; None if it was never recorded."""
        return self._events.get(event)

    def unfinished(self) -> dict[StreamId, Epoch]:
        """Return each stream whose last op is not complete for the host, with the epoch of that op."""
        return {
            StreamId(s): c[s] for s, c in enumerate(self._clocks) if s != HOST and c[s] >= TICK and self._host[s] < c[s]
        }
