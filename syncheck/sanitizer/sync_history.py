"""History of the program's ordering calls, used to explain races: bounded, newest last."""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from syncheck.hb.clock import HOST, Epoch, VectorClock, covers
from syncheck.hb.ids import MAIN_THREAD, NO_EVENT, UNKNOWN_SITE, EventId, HostId, SiteId, StreamId, StreamOrigin

_KEPT = 512


NOT_RECORDED = (HOST, UNKNOWN_SITE, StreamOrigin.BY_NAME, HOST)


@dataclass(frozen=True, slots=True)
class Wait:
    """A call that makes a stream wait.

    Attributes:
        waiter: the stream that waits.
        target: the stream waited for; 0 for an event wait.
        event: the event waited for; 0 for `wait_stream`.
        submitted: each actor's last op at the call, that is, everything before it in host order.
        acquired: the clock that it acquired; None for a wait that did nothing.
        by_event: whether it was `Event.wait`, which is sometimes mistaken for a host wait.
        origins: how waiter and target were obtained: by "current_stream", "default_stream" or "".
        current: the stream that was current at the call.
        recorded: (stream, call site, origin, current) of the event's record, for an event wait.
    """

    site: SiteId
    waiter: StreamId
    target: StreamId
    event: EventId
    submitted: VectorClock
    acquired: VectorClock | None
    by_event: bool
    origins: tuple[StreamOrigin, StreamOrigin]
    current: StreamId = HOST
    recorded: tuple[StreamId, SiteId, StreamOrigin, StreamId] = NOT_RECORDED

    def follows(self, epoch: Epoch) -> bool:
        """Return whether it was called after `epoch` was submitted."""
        return covers(self.submitted, epoch)

    def covers(self, epoch: Epoch) -> bool:
        """Return whether the awaited work includes `epoch`."""
        return self.acquired is not None and covers(self.acquired, epoch)

    def includes(self, clock: VectorClock) -> bool:
        """Return whether the awaited work includes all of a clock."""
        return self.acquired is not None and all(self.covers(epoch) for epoch in clock if epoch)


@dataclass(frozen=True, slots=True)
class HostSync:
    """A call that makes the host wait for a device, or for one of its streams or events.

    Attributes:
        event: the event; 0 if it did not wait for one.
        is_device_wide: whether the call waits for all work of the device.
        is_needed: whether, at this call or an earlier one, the device had work that no other device's stream follows.
        host: the thread that waited.
        moment: when it waited, in the engine's count of thread steps.
    """

    site: SiteId
    device: int
    submitted: VectorClock
    event: EventId = NO_EVENT
    is_device_wide: bool = False
    is_needed: bool = False
    host: HostId = MAIN_THREAD
    moment: int = 0

    def follows(self, epoch: Epoch) -> bool:
        """Return whether it was called after `epoch` was submitted."""
        return covers(self.submitted, epoch)


@dataclass(frozen=True, slots=True)
class UnorderedWait:
    """A wait for an event whose record was made by a thread that is not ordered with the waiting thread.

    Attributes:
        waiter: the stream that waits; HOST for a thread.
        snapshot: the clock that the record represents.
        recorded_at: the call site of the record.
        recorder: the thread that made the record.
    """

    site: SiteId
    waiter: StreamId
    snapshot: VectorClock
    recorded_at: SiteId
    recorder: HostId

    def covers(self, epoch: Epoch) -> bool:
        """Return whether the work that should be waited for includes `epoch`."""
        return covers(self.snapshot, epoch)


@dataclass(frozen=True, slots=True)
class LostRecord:
    """A record of an event that was replaced by the next one before it was used."""

    event: EventId
    stream: StreamId
    site: SiteId
    second_site: SiteId
    snapshot: VectorClock

    def covers(self, epoch: Epoch) -> bool:
        """Return whether the lost snapshot includes `epoch`."""
        return covers(self.snapshot, epoch)


class SyncHistory:
    """The latest ordering calls.

    Args:
        follows: returns whether the current host action is ordered after a thread's action at a given moment.
    """

    def __init__(self, follows: Callable[[HostId, int], bool]) -> None:
        self._follows = follows
        self._unordered: deque[UnorderedWait] = deque(maxlen=_KEPT)
        self._waits: deque[Wait] = deque(maxlen=_KEPT)
        self._syncs: deque[HostSync] = deque(maxlen=_KEPT)
        self._lost: deque[LostRecord] = deque(maxlen=_KEPT)
        self.add_wait, self.add_lost = self._waits.append, self._lost.append
        self.add_unordered = self._unordered.append
        self._needed: set[SiteId] = set()  # calls that were needed for their own device at least once

    def add_sync(self, sync: HostSync) -> None:
        """Add a host synchronization."""
        if sync.is_needed:
            self._needed.add(sync.site)
        self._syncs.append(replace(sync, is_needed=sync.site in self._needed))

    def waits_after(self, epoch: Epoch) -> Iterator[Wait]:
        """Yield the waits called after `epoch` was submitted, newest first."""
        return (wait for wait in reversed(self._waits) if wait.follows(epoch))

    def wait_covering(self, waiter: StreamId, clock: VectorClock, site: SiteId) -> SiteId:
        """Return the site of an actor's newest wait, other than at `site`, that covered a whole clock; 0 if none."""
        return next(
            (w.site for w in reversed(self._waits) if w.waiter == waiter and w.site != site and w.includes(clock)),
            UNKNOWN_SITE,
        )

    def ordering(self, waiter: StreamId, epoch: Epoch, device: int) -> tuple[SiteId, bool]:
        """Return the call that ordered an actor after `epoch` of a device, and whether it was a host wait."""
        wait = next((w for w in self.waits_after(epoch) if w.waiter == waiter and w.covers(epoch)), None)
        if wait is not None:
            return wait.site, False
        return next((sync.site for sync in self.syncs_after(epoch) if sync.device == device), UNKNOWN_SITE), True

    def ineffective_wait(self, waiter: StreamId, epoch: Epoch) -> Wait | None:
        """Return an actor's newest wait after `epoch` was submitted that did nothing; None if there is none."""
        return next((w for w in self.waits_after(epoch) if w.waiter == waiter and w.acquired is None), None)

    def syncs_after(self, epoch: Epoch) -> Iterator[HostSync]:
        """Yield the host synchronizations called after `epoch` was submitted and before now, newest first."""
        return (sync for sync in reversed(self._syncs) if sync.follows(epoch) and self._is_before(sync))

    def events_awaited_after(self, waiter: StreamId, epoch: Epoch) -> Iterator[EventId]:
        """Yield the events that a stream, or the host, waited for after `epoch` was submitted, newest first."""
        if waiter == HOST:
            return (sync.event for sync in self.syncs_after(epoch) if sync.event)
        return (wait.event for wait in self.waits_after(epoch) if wait.waiter == waiter and wait.event)

    def unordered_sync_after(self, epoch: Epoch) -> HostSync | None:
        """Return the newest call after `epoch` by a thread not ordered before the current host action, or None."""
        return next((sync for sync in reversed(self._syncs) if sync.follows(epoch) and not self._is_before(sync)), None)

    def _is_before(self, sync: HostSync) -> bool:
        return self._follows(sync.host, sync.moment)

    def unordered_wait(self, waiter: StreamId, epoch: Epoch) -> UnorderedWait | None:
        """Return an actor's newest wait for an event that covers `epoch` but may be recorded only later, or None."""
        return next((w for w in reversed(self._unordered) if w.waiter == waiter and w.covers(epoch)), None)

    def lost_covering(self, epoch: Epoch) -> Iterator[LostRecord]:
        """Yield the lost records that include `epoch`, newest first."""
        return (lost for lost in reversed(self._lost) if lost.covers(epoch))
