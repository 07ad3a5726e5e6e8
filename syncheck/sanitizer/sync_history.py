"""What the program did to order its work, kept for the explanation of a race: bounded, newest last."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from syncheck.hb.clock import ACTOR_MASK, HOST, Epoch, VectorClock
from syncheck.hb.ids import NO_EVENT, UNKNOWN_SITE, EventId, LookedUp, SiteId, StreamId

_KEPT = 512


NOT_RECORDED = (HOST, UNKNOWN_SITE, LookedUp.BY_NAME, HOST)


@dataclass(frozen=True, slots=True)
class Wait:
    """A stream was made to wait.

    Attributes:
        waiter: the stream that waits.
        target: the stream waited for; 0 for an event wait.
        event: the event waited for; 0 for `wait_stream`.
        submitted: each actor's last op when it was called: what was before it in host order.
        acquired: the clock it took; None for a wait that did nothing.
        by_event: it was `Event.wait`, which some believe to block the host.
        looked_up: ("current_stream" | "default_stream" | "") for waiter and target.
        current: the stream that was current at the call.
        recorded: (stream, call site, looked up, current) of the event's record, for an event wait.
    """

    site: SiteId
    waiter: StreamId
    target: StreamId
    event: EventId
    submitted: VectorClock
    acquired: VectorClock | None
    by_event: bool
    looked_up: tuple[LookedUp, LookedUp]
    current: StreamId = HOST
    recorded: tuple[StreamId, SiteId, LookedUp, StreamId] = NOT_RECORDED

    def follows(self, epoch: Epoch) -> bool:
        """Return whether it was called after `epoch` was submitted."""
        return _at(self.submitted, epoch) >= epoch

    def covers(self, epoch: Epoch) -> bool:
        """Return whether what it waited for includes `epoch`."""
        return self.acquired is not None and _at(self.acquired, epoch) >= epoch


@dataclass(frozen=True, slots=True)
class HostSync:
    """The program made the host wait for a device, or for a stream or an event of it.

    Attributes:
        event: the event; 0 if it waited for none.
        is_device_wide: the call waits for all work of the device.
    """

    site: SiteId
    device: int
    submitted: VectorClock
    event: EventId = NO_EVENT
    is_device_wide: bool = False

    def follows(self, epoch: Epoch) -> bool:
        """Return whether it was called after `epoch` was submitted."""
        return _at(self.submitted, epoch) >= epoch


@dataclass(frozen=True, slots=True)
class LostRecord:
    """An event's record that was not used before the next one replaced it."""

    event: EventId
    stream: StreamId
    site: SiteId
    second_site: SiteId
    snapshot: VectorClock

    def covers(self, epoch: Epoch) -> bool:
        """Return whether the lost snapshot includes `epoch`."""
        return _at(self.snapshot, epoch) >= epoch


def _at(clock: VectorClock, epoch: Epoch) -> Epoch:
    actor = epoch & ACTOR_MASK
    return clock[actor] if actor < len(clock) else 0


class SyncHistory:
    """The latest ordering calls."""

    def __init__(self) -> None:
        self._waits: deque[Wait] = deque(maxlen=_KEPT)
        self._syncs: deque[HostSync] = deque(maxlen=_KEPT)
        self._lost: deque[LostRecord] = deque(maxlen=_KEPT)

    def add_wait(self, wait: Wait) -> None:
        """Remember a wait."""
        self._waits.append(wait)

    def add_sync(self, sync: HostSync) -> None:
        """Remember a host synchronization."""
        self._syncs.append(sync)

    def add_lost(self, lost: LostRecord) -> None:
        """Remember a lost record."""
        self._lost.append(lost)

    def waits_after(self, epoch: Epoch) -> Iterator[Wait]:
        """Yield the waits called after `epoch` was submitted, newest first."""
        return (wait for wait in reversed(self._waits) if wait.follows(epoch))

    def idle_wait(self, waiter: StreamId, epoch: Epoch) -> Wait | None:
        """Return the newest wait of an actor, called after `epoch` was submitted, that waited for nothing."""
        return next((w for w in self.waits_after(epoch) if w.waiter == waiter and w.acquired is None), None)

    def syncs_after(self, epoch: Epoch) -> Iterator[HostSync]:
        """Yield the host synchronizations called after `epoch` was submitted, newest first."""
        return (sync for sync in reversed(self._syncs) if sync.follows(epoch))

    def lost_covering(self, epoch: Epoch) -> Iterator[LostRecord]:
        """Yield the lost records that include `epoch`, newest first."""
        return (lost for lost in reversed(self._lost) if lost.covers(epoch))
