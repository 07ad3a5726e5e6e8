"""Cells: the access history of the bytes of one view."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from syncheck.hb.clock import ACTOR_MASK, Epoch, VectorClock, actor_of, covers
from syncheck.hb.footprint import Footprint, contains, overlap
from syncheck.hb.ids import StreamId

ALLOCATION = -1
"""Label of the write that represents the allocation itself: the last use of the bytes by their previous owner."""


class AccessRecord(NamedTuple):
    """One access, as reported in a race.

    Attributes:
        actor: the stream, or HOST.
        epoch: the access's time on the actor's own clock; 0 for the host.
        label: the caller's label for the operator and call site.
        footprint: the bytes accessed.
        is_write: False for a read.
    """

    actor: StreamId
    epoch: Epoch
    label: int
    footprint: Footprint
    is_write: bool


class Cell:
    """The history of one footprint: the last write and the reads since then. FastTrack's variable state.

    Attributes:
        footprint: the bytes of the view.
        rest: those of them that this history stands for. Other cells may have taken over some at either end, with later
            accesses that are ordered after all accesses here, or whose race with them has been reported.
        overlaps: other cells of the allocation that share a byte, among them all that stand for a byte of `rest`.
    """

    __slots__ = ("footprint", "overlaps", "read", "read_label", "reads", "rest", "write", "write_label")

    def __init__(self, footprint: Footprint) -> None:
        self.footprint = self.rest = footprint
        self.write: Epoch = 0
        self.write_label = 0
        self.read: Epoch = 0  # the last read, while one actor's read is enough
        self.read_label = 0
        self.reads: dict[int, tuple[Epoch, int]] | None = None  # actor -> last read, once reads are unordered
        self.overlaps: list[Cell] = []

    def add_read(self, now: Epoch, label: int, clock: VectorClock) -> None:
        """Add a read at `now` by the clock's owner: a single epoch if it comes after the last read, else a table."""
        read = self.read
        if self.reads is not None:  # [READ SHARED]
            self.reads[now & ACTOR_MASK] = (now, label)
        elif clock[read & ACTOR_MASK] >= read:  # [READ EXCLUSIVE]
            self.read, self.read_label = now, label
        else:  # [READ SHARE]
            self.reads = {read & ACTOR_MASK: (read, self.read_label), now & ACTOR_MASK: (now, label)}

    def all_reads(self) -> Iterator[tuple[Epoch, int]]:
        """Yield (epoch, label) of each stored read."""
        if self.reads is not None:
            yield from self.reads.values()
        elif self.read:
            yield self.read, self.read_label

    def forget(self) -> None:
        """Drop the history: a later write of all these bytes supersedes it."""
        self.write = self.read = 0
        self.reads = None

    def has_no_more_than(self, reader: "Cell", now: Epoch) -> bool:
        """Return whether the history only has the same write as `reader`, and reads by its stream, before `now`."""
        is_same_write = not self.write or (self.write, self.write_label) == (reader.write, reader.write_label)
        return is_same_write and self.reads is None and (not self.read or actor_of(self.read) == actor_of(now))

    def is_covered_by(self, clock: VectorClock) -> bool:
        """Return whether `clock` covers the whole history."""
        return covers(clock, self.write) and all(covers(clock, epoch) for epoch, _ in self.all_reads())


def link(cell: Cell, others: Iterable[Cell]) -> None:
    """Link a cell with those of some others that stand for a byte of it."""
    linked = {id(cell), *map(id, cell.overlaps)}
    for other in others:
        if id(other) not in linked and overlap(cell.rest, other.rest):
            cell.overlaps.append(other)
            other.overlaps.append(cell)


def supersede(writer: Cell) -> None:
    """Drop the history of overlapping cells that a write of `writer`'s bytes has certainly overwritten."""
    for other in writer.overlaps:
        if contains(writer.footprint, other.rest):
            other.forget()


def may_conflict(overlaps: list[Cell], clock: VectorClock, *, is_write: bool) -> bool:
    """Return whether `clock` leaves uncovered any history of overlapping cells that the access may conflict with."""
    for other in overlaps:
        write, read = other.write, other.read
        if clock[write & ACTOR_MASK] < write:
            return True
        if is_write and (other.reads is not None or clock[read & ACTOR_MASK] < read):
            return True
    return False


def uncovered(cell: Cell, clock: VectorClock, *, is_write: bool) -> list[AccessRecord]:
    """Return the accesses in a cell's history that a new access races with, the latest per actor."""
    found: dict[StreamId, AccessRecord] = {}
    write = cell.write
    if clock[write & ACTOR_MASK] < write:
        actor = actor_of(write)
        found[actor] = AccessRecord(actor, write, cell.write_label, cell.footprint, is_write=True)
    if is_write:
        for epoch, label in cell.all_reads():  # all later than the write, or by the same op
            actor = actor_of(epoch)
            if clock[actor] < epoch and epoch != write:  # an op that reads and writes is reported as a write
                found[actor] = AccessRecord(actor, epoch, label, cell.footprint, is_write=False)
    return list(found.values())
