"""The happens-before engine: takes integer ids, returns races and memory hazards.

The state per footprint is FastTrack's: one epoch for the last write, one epoch for the last read while that is enough,
and a table of reads once several streams read concurrently. The host is an actor without epochs of its own: its steps
need none, because every later op of any stream comes after them.
"""

from typing import NamedTuple

from syncheck.errors import TraceError
from syncheck.hb.cells import ALLOCATION, AccessRecord, Cell, may_conflict, uncovered
from syncheck.hb.clock import ACTOR_MASK, HOST, TICK, VectorClock, actor_of, covers, join
from syncheck.hb.footprint import Footprint
from syncheck.hb.host_uses import HostUses
from syncheck.hb.ids import Accesses, AllocationId, HostId, StreamId, ViewId
from syncheck.hb.memory import NO_NOTE, Block, Freed, FreedAccess, Note, Pool, Stamp, fills_several
from syncheck.hb.order import Order

HOST_POOL = -1
"""The pool of pinned host memory. Its allocator waits for the streams itself, so reuse is not a hazard.

Source: CachingHostAllocator records one event per stream at the free, aten/src/ATen/core/CachingHostAllocator.h.
"""

_PRUNE_MASK = 31 * TICK
"""Logs of private memory are pruned at every 32nd launch of a stream, when its epoch has none of these bits set."""


class Race(NamedTuple):
    """Two accesses to common bytes, at least one a write, neither of which happens before the other.

    Attributes:
        allocation: the allocation's id.
        prior: the access submitted first.
        current: the access that completed the race.
        is_first_use: `prior` is the allocation itself: the previous use of the block may still be in progress.
        by_host: the host thread that made the prior access, if the host made it; `prior.epoch` is then its moment.
        is_in_pool: `current` replays a graph, and may use the memory because of a shared pool of graphs.
    """

    allocation: AllocationId
    prior: AccessRecord
    current: AccessRecord
    is_first_use: bool = False
    by_host: HostId | None = None
    is_in_pool: bool = False


class Engine(Order):
    """Detects races and memory hazards, on top of the happens-before order.

    Views are registered once and then named by index. The cost of a launch does not depend on the number of streams
    unless the host has synchronized since the stream's last op.
    """

    def __init__(self) -> None:
        super().__init__()
        self._blocks: dict[AllocationId, Block] = {}
        self._pools: dict[tuple[int, int], Pool] = {}
        self._footprints: list[Footprint] = []
        self._key_of: list[int] = []  # view -> index of its footprint
        self._keys: dict[Footprint, int] = {}
        self._host_uses: dict[AllocationId, HostUses] = {}  # filled only once there are several threads

    def clone_streams(self) -> "Engine":
        """Return an engine with the same streams and footprints but no history, for the inside of a graph."""
        clone = Engine()
        for stream in range(1, len(self._clocks)):
            device = next(device for device, streams in self._devices.items() if stream in streams)
            clone.add_stream(device)
        clone._footprints, clone._key_of, clone._keys = self._footprints, self._key_of, self._keys
        return clone

    # -- memory

    def add_view(self, footprint: Footprint) -> ViewId:
        """Register a view and return its id, new for each call; views of equal bytes share their history."""
        key = self._keys.setdefault(footprint, len(self._footprints))
        if key == len(self._footprints):
            self._footprints.append(footprint)
        self._key_of.append(key)
        return ViewId(len(self._key_of) - 1)

    def allocate(
        self, allocation: AllocationId, home: StreamId, n_bytes: int, pool: int, label: int
    ) -> list[FreedAccess]:
        """Begin the lifetime of an allocation on stream `home`; return the uses of freed memory it may collide with.

        Args:
            allocation: a new id.
            home: the current stream; HOST for pinned host memory.
            n_bytes: size of the allocation.
            pool: 0 for the allocator's default pool, a positive id for a private pool; negative where reuse is not a
                hazard, as in HOST_POOL and in the pools of graphs.
            label: identifies the call site.
        """
        if home == HOST:
            self._blocks[allocation] = Block(HOST, 0, n_bytes, pool, label)
            return []
        created = self._clocks[home][home] if pool >= 0 else 0
        self._blocks[allocation] = Block(home, created, n_bytes, pool, label)
        freed = self._pools.get((home, pool)) if self._pools else None
        if freed is None or not freed.pending or not n_bytes:  # an empty allocation gets no memory
            return []
        return freed.take(n_bytes, self._ahead(home))

    def record_stream(self, allocation: AllocationId, stream: StreamId, note: Note = NO_NOTE) -> bool:
        """Protect an allocation for a stream's work; return whether the stream is the allocation's own.

        Args:
            allocation: the memory to protect.
            stream: the stream whose work, up to the free, is protected.
            note: stored for `records`.

        Source:
            CUDACachingAllocator `recordStream`: events are recorded on the noted streams when the block is freed.
        """
        block = self._block(allocation)
        if block.home == stream:
            return block.pool >= 0  # in other pools, the allocating stream is unknown
        if block.recorded is None:
            block.recorded = {}
        block.recorded.setdefault(stream, note)
        return False

    def records(self, allocation: AllocationId) -> dict[StreamId, Note]:
        """Return the streams passed to `record_stream`, each with the note of its first call."""
        return self._block(allocation).recorded or {}

    def allocation_label(self, allocation: AllocationId) -> int:
        """Return the label that the allocation was created with."""
        return self._block(allocation).label

    def free_private(self, allocation: AllocationId) -> bool:
        """End the lifetime of an allocation if only its home stream has touched it; return whether it ended.

        Such a free cannot cause a hazard: the memory returns to the stream that used it.
        """
        blocks = self._blocks
        block = blocks.get(allocation)
        if block is None or block.private < 0 or block.recorded is not None:
            return False
        del blocks[allocation]
        return True

    def free(self, allocation: AllocationId, label: int) -> Freed:
        """End the lifetime of an allocation and return its memory to the pool of its home stream."""
        block = self._block(allocation)
        del self._blocks[allocation]
        self._host_uses.pop(allocation, None)
        if block.private >= 0:
            block.share(self._footprints, self._key_of)
        if block.pool < 0 or not block.cells:
            return Freed((), ())
        clock = self._clock_at_free(block.home)
        pending = block.latest_uses(clock)
        uses = block.uses() if block.recorded else ()
        # streams whose uses the free is ordered after, but not the host
        joined = {actor_of(e) for e, *_ in uses if clock[actor_of(e)] >= e and not self.host_covers(e)}
        return self._protect(allocation, block, pending, joined, label)

    def _clock_at_free(self, home: StreamId) -> VectorClock:
        """Return the clock that a free starts from: the home stream's, joined with that of any thread that may free."""
        if not self._hosts.has_threads:
            return self._now(home)
        clock = list(self._clocks[home])
        join(clock, self._hosts.everyone)
        return clock

    def _protect(
        self, allocation: AllocationId, block: Block, pending: list[AccessRecord], joined: set[StreamId], label: int
    ) -> Freed:
        """Add the pending uses of a freed block to its pool, except those protected by `record_stream`."""
        recorded = block.recorded or {}
        useful: set[StreamId] = set()  # recorded streams whose next op comes after some pending use, of any stream
        for use in pending:
            protectors = {stream for stream in recorded if covers(self._ahead(stream), use.epoch)}
            useful |= protectors
            if not protectors:
                freed = FreedAccess(allocation, block.home, use, label, block.label, block.n_bytes)
                self._pools.setdefault((block.home, block.pool), Pool()).add(freed)
        useless = tuple(sorted((recorded.keys() & joined) - useful))
        return Freed(useless, tuple(sorted(recorded.keys() - set(useless))))

    def holds_used_memory(self) -> bool:
        """Return whether freed memory may be in use when its home stream reuses it; finalizers may call this."""
        return any(
            not (covers(self._clocks[home], use.epoch) or self.host_covers(use.epoch))
            for (home, _), pool in list(self._pools.items())
            for use in pool.uses()
        )

    def is_ordered_after_all(self, stream: StreamId, allocation: AllocationId) -> bool:
        """Return whether a stream's next op comes after every access to an allocation that the stream has used.

        If so, none of the stream's accesses can race until another stream or a host thread uses the memory.
        """
        block = self._blocks.get(allocation)
        if block is None or block.home == HOST or allocation in self._host_uses:
            return False
        if block.private >= 0:
            return block.private == stream
        clock = self._clocks[stream]
        return all(cell.is_covered_by(clock) for cell in block.cells.values())

    def unordered_uses(self, allocation: AllocationId, stream: StreamId) -> list[AccessRecord]:
        """Return the accesses to a live allocation that a stream's last op does not come after, one per stream."""
        block = self._blocks.get(allocation)
        if block is not None and block.private >= 0:
            block.share(self._footprints, self._key_of)
        return [] if block is None else block.latest_uses(self._clocks[stream])

    def home_of(self, allocation: AllocationId) -> StreamId:
        """Return the stream that a live allocation was made on."""
        return self._block(allocation).home

    def is_live(self, allocation: AllocationId) -> bool:
        """Return whether the allocation exists and has not been freed."""
        return allocation in self._blocks

    def fills_slots(self, label: int) -> bool:
        """Return whether the ops of a label were the last to write several parts of host memory, as slots of a ring."""
        return fills_several(self._blocks.values(), label)

    def _block(self, allocation: AllocationId) -> Block:
        try:
            return self._blocks[allocation]
        except KeyError:
            raise TraceError(f"allocation {allocation} does not exist or was freed") from None

    # -- accesses

    def launch(self, stream: StreamId, accesses: Accesses, label: int) -> list[Race]:  # noqa: C901, PLR0912  the hot path
        """Submit one op to a stream and return the races that its accesses complete.

        Args:
            stream: the stream the op runs on.
            accesses: the op's reads and writes.
            label: identifies the operator and the call site.

        Raises:
            TraceError: an allocation does not exist.

        Source:
            FastTrack, PLDI 2009, figure 2: the rules named in the comments.
        """
        clock = self._clocks[stream]
        if self._seen_host[stream] != self._host_version or self._implicit[stream]:
            self._submit(stream)
        now = clock[stream] = clock[stream] + TICK
        self._snapshots[stream] = None
        races: list[Race] = []
        blocks = self._blocks
        stamp = (now, label)
        is_time = not now & _PRUNE_MASK
        for allocation, view, is_write in accesses:
            try:
                block = blocks[allocation]
            except KeyError:
                raise TraceError(f"allocation {allocation} does not exist or was freed") from None
            if block.private == stream:
                if block.view != view:
                    if block.view >= 0:
                        block.log_other_view(view, stamp, is_write=is_write)
                        if is_time:
                            block.prune_log(self._host)
                        continue
                    block.view = view
                if is_write:
                    block.written = stamp
                else:
                    block.read = stamp
                continue
            cell = self._cell(block, view)
            write, read = cell.write, cell.read
            # the common, ordered case costs a few comparisons; only the rest is examined in full
            if (
                clock[write & ACTOR_MASK] < write
                or (is_write and (cell.reads is not None or clock[read & ACTOR_MASK] < read))
                or (cell.overlaps and may_conflict(cell.overlaps, clock, is_write=is_write))
            ):
                current = AccessRecord(stream, now, label, cell.footprint, is_write)
                races.extend(_conflicts(allocation, block, cell, current, clock))
            if is_write:
                cell.write, cell.write_label, cell.read, cell.reads = now, label, 0, None
            else:
                cell.add_read(now, label, clock)
            if cell.overlaps:
                block.note_access(cell, now, is_write=is_write)
        return races + self._races_with_host(stream, accesses, stamp) if self._host_uses else races

    def launch_elided(self, stream: StreamId, count: int) -> None:
        """Submit ops whose accesses nothing can depend on any more."""
        clock = self._submit(stream)
        clock[stream] += count * TICK
        self._snapshots[stream] = None

    def _cell(self, block: Block, view: ViewId) -> Cell:
        """Return the cell of a view's bytes, creating it if necessary; the block is shared from now on."""
        if block.private >= 0:
            block.share(self._footprints, self._key_of)
        key = self._key_of[view]
        cell = block.cells.get(key)
        if cell is not None and cell.rest is cell.footprint:  # the common case, without another call
            return cell
        return block.cell_of(key) or self._new_cell(block, key)

    def _new_cell(self, block: Block, key: int) -> Cell:
        if len(block.cells) >= block.limit:
            block.prune(self._host)
        return block.add_cell(key, self._footprints[key])

    def host_access(self, allocation: AllocationId, view: ViewId, label: int, *, is_write: bool) -> list[Race]:
        """Check a read or write by the host against the streams' accesses; return the races."""
        block = self._blocks.get(allocation)
        if block is None or not block.is_touched:
            return []
        cell = self._cell(block, view)
        current = AccessRecord(HOST, 0, label, cell.footprint, is_write)
        if self._hosts.has_threads:
            uses = self._host_uses.setdefault(allocation, HostUses())
            uses.add(self._hosts, label, cell.footprint, is_write=is_write)
        return _conflicts(allocation, block, cell, current, self._host)

    def _races_with_host(self, stream: StreamId, accesses: Accesses, stamp: Stamp) -> list[Race]:
        """Return the races between the given accesses, submitted now, and earlier accesses by other host threads."""
        races = []
        for allocation, view, is_write in accesses:
            uses = self._host_uses.get(allocation)
            if uses is not None:
                current = AccessRecord(stream, *stamp, self._footprints[self._key_of[view]], is_write)
                races += [
                    Race(allocation, AccessRecord(HOST, moment, label, footprint, write), current, by_host=host)
                    for host, moment, label, footprint, write in uses.conflicts(self._hosts, current)
                ]
        return races

    # -- reported races

    def assume_ordered(self, race: Race) -> None:
        """Add the edge that a reported race lacks, so that the race is not reported again at every later use."""
        if race.by_host is not None:
            self._hosts.current.note(race.by_host, race.prior.epoch)
            return
        knowledge = self._clocks[race.prior.actor]
        if race.current.actor == HOST:
            self._mark_complete(knowledge)
        else:
            self._acquire(race.current.actor, knowledge)

    def order_root_causes_first(self, races: list[Race]) -> list[Race]:
        """Sort the races of one op, those first whose prior actor's clock covers most of the other prior accesses.

        Allocations come last: the memory may never have been in use. Of one op's accesses, a write comes first.
        """

        def seen(race: Race) -> int:
            return sum(covers(self._clocks[race.prior.actor], other.prior.epoch) for other in races)

        def rank(race: Race) -> tuple[int, bool, int, bool]:
            return -seen(race), race.is_first_use, -race.prior.epoch, not race.prior.is_write

        return races if len(races) < 2 else sorted(races, key=rank)


def _conflicts(
    allocation: AllocationId, block: Block, cell: Cell, current: AccessRecord, clock: VectorClock
) -> list[Race]:
    """Return the races of one access with the history of its bytes: the latest access per cell and actor."""
    races = []
    is_early = False
    for other in (cell, *cell.overlaps):
        for prior in uncovered(other, clock, is_write=current.is_write):
            if prior.label == ALLOCATION:
                is_early = True
            else:
                races.append(Race(allocation, prior, current))
    if is_early:
        if not races:
            prior = AccessRecord(block.home, block.created, block.label, current.footprint, is_write=True)
            races.append(Race(allocation, prior, current, is_first_use=True))
        block.mark_first_use_reported()
    return races
