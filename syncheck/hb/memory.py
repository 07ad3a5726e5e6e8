"""Shadow memory: the access history of each allocation, and the pending uses of freed memory."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from syncheck.hb.cells import ALLOCATION, AccessRecord, Cell, link, supersede
from syncheck.hb.clock import ACTOR_MASK, HOST, Epoch, VectorClock, actor_of
from syncheck.hb.footprint import Footprint, contains, overlap, without
from syncheck.hb.ids import AllocationId, SiteId, StreamId, ViewId
from syncheck.hb.intervals import Intervals

# torch serves requests up to this size from a separate pool, and never moves memory between the two pools.
# Source: kSmallSize in c10/core/AllocatorConfig.h (c10/cuda/CUDACachingAllocator.cpp before torch 2.9).
SMALL_BYTES = 1 << 20
_FIRST_PRUNE = 64
_FEW = 32
"""Below this number of cells, a linear search is faster than an index."""
_CROWDED = 8
"""Number of links above which a cell takes over bytes from others."""
_MAX_LINKS = 32
"""Number of links above which a cell keeps its bytes: removing its links would take too long."""
Stamp = tuple[Epoch, int]
"""(epoch, label) of an access."""
_NO_CELLS: dict[int, Cell] = {}
"""Shared by all private blocks; never modified."""


class Note(NamedTuple):
    """Data stored for a caller of `record_stream`.

    Attributes:
        site: the call site.
        view: the view passed to it.
        epoch: the time of the allocation's own stream at the call.
    """

    site: SiteId = SiteId(0)
    view: ViewId = ViewId(0)
    epoch: int = 0


NO_NOTE = Note()


class Freed(NamedTuple):
    """The outcome of a free.

    Attributes:
        useless_records: streams passed to `record_stream` whose uses the home stream had already waited for.
        useful_records: the other recorded streams, including those that only the host had waited for: that does not
            prove the call useless.
    """

    useless_records: tuple[StreamId, ...]
    useful_records: tuple[StreamId, ...]


class Block:
    """The lifetime of one allocation.

    While only its home stream touches it, no hazard is possible. Its history is then a log with the latest write and
    read of each view, and no cells are created. Most blocks are touched through one view only, which needs no table.
    """

    __slots__ = (
        "cells", "created", "home", "index", "label", "limit", "log", "n_bytes", "pool", "private", "read", "recorded",
        "view", "written",
    )  # fmt: skip

    def __init__(self, home: StreamId, created: Epoch, n_bytes: int, pool: int, label: int) -> None:
        self.home = home  # the stream it was allocated on; HOST for host memory
        self.created = created  # the home stream's last op at the allocation; 0 once an early first use was reported
        self.n_bytes = n_bytes
        self.pool = pool
        self.label = label
        self.cells: dict[int, Cell] = {} if home == HOST else _NO_CELLS  # footprint id -> cell, once it is shared
        self.index: Intervals[Cell] | None = None  # the cells by byte range, once there are many
        self.recorded: dict[StreamId, Note] | None = None  # stream passed to record_stream -> the caller's note
        self.limit = _FIRST_PRUNE
        self.private = -1 if home == HOST else home  # the only stream that has touched it; -1 once it is shared
        self.view = -1  # the first view, while private
        self.written: Stamp | None = None  # the latest write through the first view
        self.read: Stamp | None = None  # the latest read through the first view
        self.log: dict[int, Stamp] | None = None  # other views: view for a write, ~view for a read -> stamp

    def add_cell(self, key: int, footprint: Footprint) -> Cell:
        """Create the cell of a footprint that is new in this allocation."""
        cell = Cell(footprint)
        cell.write, cell.write_label = self.created, ALLOCATION
        others = self._candidate_cells(footprint)
        link(cell, others)
        if any(contains(other.footprint, footprint) for other in others):
            cell.forget()  # these bytes were touched before, so this is not their first use
        if self.cells is _NO_CELLS:
            self.cells = {}
        self.cells[key] = cell
        if self.index is not None:
            self.index.add(footprint.start, footprint.stop, cell)
        return cell

    def cell_of(self, key: int) -> Cell | None:
        """Return the cell of a footprint that is accessed; None if it is new. It stands for all of its bytes again."""
        cell = self.cells.get(key)
        if cell is not None and cell.rest is not cell.footprint:
            self._set_rest(cell, cell.footprint)
            link(cell, self._candidate_cells(cell.footprint))
        return cell

    def note_access(self, user: Cell, now: Epoch, *, is_write: bool) -> None:
        """Drop the history that an access at `now` to a cell's bytes supersedes in the cells it overlaps with.

        A later access that conflicts with the superseded history also conflicts with this access. If a cell has many
        links, it takes over the bytes it shares with others, so that windows that move over a buffer stay cheap.
        """
        if is_write:
            supersede(user)
        if len(user.overlaps) <= _CROWDED:
            return
        kept: list[Cell] = []
        for other in user.overlaps:
            may_give_up = len(other.overlaps) <= _MAX_LINKS and (is_write or other.has_no_more_than(user, now))
            if may_give_up and self._gives_up(other, user):
                other.overlaps.remove(user)
            else:
                kept.append(other)
        user.overlaps = kept

    def _gives_up(self, cell: Cell, user: Cell) -> bool:
        """Let a cell stand no longer for what is at its ends of the bytes of another; return whether they are separate.

        A cell that lies inside another and has given up nothing keeps its bytes: rows of a matrix would be restored at
        their next use.
        """
        rest = without(cell.rest, user.footprint)
        if rest is not cell.rest and (rest.run or cell.rest is not cell.footprint):
            self._set_rest(cell, rest)
        return not overlap(cell.rest, user.footprint)

    def _set_rest(self, cell: Cell, rest: Footprint) -> None:
        """Set the bytes that a cell stands for."""
        if self.index is not None:
            if cell.rest.run:
                self.index.remove(cell.rest.start, cell.rest.stop, cell)
            if rest.run:
                self.index.add(rest.start, rest.stop, cell)
        cell.rest = rest

    def _candidate_cells(self, footprint: Footprint) -> Iterable[Cell]:
        """Return the cells that may stand for a byte of a footprint."""
        if self.index is None:
            if len(self.cells) < _FEW:
                return self.cells.values()
            self.index = Intervals()
            for cell in self.cells.values():
                if cell.rest.run:
                    self.index.add(cell.rest.start, cell.rest.stop, cell)
        return self.index.overlapping(footprint.start, footprint.stop)

    def log_other_view(self, view: ViewId, stamp: Stamp, *, is_write: bool) -> None:
        """Log an access through a view other than the first."""
        if self.log is None:
            self.log = {}
        self.log[view if is_write else ~view] = stamp

    def prune_log(self, host: VectorClock) -> None:
        """Drop the entries of a private block's log that are complete for the host, if the log has grown."""
        if self.log is not None and len(self.log) > self.limit:
            known = host[self.private]
            self.log = {view: stamp for view, stamp in self.log.items() if stamp[0] > known}
            self.limit = max(_FIRST_PRUNE, 2 * len(self.log))

    @property
    def is_touched(self) -> bool:
        """Return whether any access is stored."""
        return bool(self.cells) or self.view >= 0

    def share(self, footprints: list[Footprint], key_of: list[int]) -> None:
        """Convert the log to cells because another actor accesses the block, as if each access had been checked."""
        self.private = -1
        log, self.log = self.log or {}, None
        if self.written is not None:
            log[self.view] = self.written
        if self.read is not None:
            log[~self.view] = self.read
        self.view, self.written, self.read = -1, None, None
        self.limit = max(_FIRST_PRUNE, 2 * len(log))
        for view, (epoch, label) in sorted(log.items(), key=lambda entry: entry[1][0]):
            key = key_of[view if view >= 0 else ~view]
            cell = self.cell_of(key) or self.add_cell(key, footprints[key])
            if view >= 0:
                cell.write, cell.write_label, cell.read = epoch, label, 0
            else:
                cell.read, cell.read_label = epoch, label
            self.note_access(cell, epoch, is_write=view >= 0)

    def mark_first_use_reported(self) -> None:
        """Record that an unordered first use was reported, so that it is reported once per allocation."""
        self.created = 0
        for cell in self.cells.values():
            if cell.write_label == ALLOCATION:
                cell.write = 0

    def prune(self, host: VectorClock) -> None:
        """Drop cells whose whole history is complete for the host: every later op comes after it."""
        kept = {key: cell for key, cell in self.cells.items() if not cell.is_covered_by(host)}
        alive = {id(cell) for cell in kept.values()}
        for cell in kept.values():
            cell.overlaps = [other for other in cell.overlaps if id(other) in alive]
        self.cells, self.index = kept, None
        self.limit = max(_FIRST_PRUNE, 2 * len(kept))

    def uses(self) -> Iterator[tuple[Epoch, int, Footprint, bool]]:
        """Yield (epoch, label, footprint, is_write) of every stored access."""
        for cell in self.cells.values():
            if cell.write and cell.write_label != ALLOCATION:
                yield cell.write, cell.write_label, cell.footprint, True
            for epoch, label in cell.all_reads():
                yield epoch, label, cell.footprint, False

    def latest_uses(self, clock: VectorClock) -> list[AccessRecord]:
        """Return the latest access of each stream that `clock` does not cover."""
        latest: dict[StreamId, AccessRecord] = {}
        for epoch, label, footprint, is_write in self.uses():
            actor = actor_of(epoch)
            if clock[actor] < epoch and (actor not in latest or latest[actor].epoch < epoch):
                latest[actor] = AccessRecord(actor, epoch, label, footprint, is_write)
        return list(latest.values())


def fills_several(blocks: Iterable[Block], label: int) -> bool:
    """Return whether the ops of a label were the last to write several parts of host memory, as the slots of a ring."""
    cells = (cell for block in blocks if block.home == HOST for cell in block.cells.values())
    return sum(cell.write_label == label for cell in cells) > 1


@dataclass(frozen=True, slots=True)
class FreedAccess:
    """A use of a freed block that the block's home stream had not waited for when it was freed."""

    allocation: AllocationId
    home: StreamId
    use: AccessRecord
    free_label: int
    allocation_label: int
    n_bytes: int


@dataclass(slots=True)
class Pool:
    """Freed blocks of one home stream that another stream may still be using."""

    pending: dict[tuple[int, int, int, bool], list[FreedAccess]] = field(default_factory=dict)

    def add(self, freed: FreedAccess) -> None:
        """Add a use. Of several with the same cause, only those of the latest op are kept, which bounds the pool."""
        key = (freed.use.actor, freed.use.label, freed.allocation_label, freed.n_bytes <= SMALL_BYTES)
        known = self.pending.pop(key, [])
        if not known or known[0].use.epoch < freed.use.epoch:
            known = [freed]
        elif known[0].use.epoch == freed.use.epoch and all(one.allocation != freed.allocation for one in known):
            known.append(freed)
        self.pending[key] = known

    def uses(self) -> list[AccessRecord]:
        """Return the pending uses, one for each cause."""
        return [first.use for first, *_ in list(self.pending.values())]

    def take(self, n_bytes: int, clock: VectorClock) -> list[FreedAccess]:
        """Remove and return the uses that a new allocation of `n_bytes` may collide with."""
        overlapping: list[FreedAccess] = []
        for key, (first, *_) in list(self.pending.items()):
            if clock[first.use.epoch & ACTOR_MASK] >= first.use.epoch:
                del self.pending[key]  # joined in the meantime
            elif (first.n_bytes <= SMALL_BYTES) == (n_bytes <= SMALL_BYTES):
                overlapping += self.pending.pop(key)
        return overlapping
