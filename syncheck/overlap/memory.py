"""Dependencies between operations through memory, and the reuse of freed memory."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from syncheck.hb.footprint import Footprint, contains, dense, overlap
from syncheck.hb.ids import AllocationId, StreamId
from syncheck.overlap.ids import OpId

_MAX_CELLS = 64
"""Maximum number of cells per allocation that are tracked separately."""

NEVER = -1


@dataclass(slots=True)
class _Cell:
    """A range of bytes: each stream's latest write, and its latest read since the last write."""

    writes: dict[StreamId, OpId] = field(default_factory=dict)
    reads: dict[StreamId, OpId] = field(default_factory=dict)


@dataclass(slots=True)
class _Lifetime:
    """State of one allocation.

    Attributes:
        allocated_after: the last operation of its home stream before the allocation.
        users: stream -> its last operation that used the allocation.
        recorded: streams passed to `record_stream`.
    """

    home: StreamId
    n_bytes: int
    allocated_after: OpId
    cells: dict[Footprint, _Cell] = field(default_factory=dict)
    users: dict[StreamId, OpId] = field(default_factory=dict)
    recorded: set[StreamId] = field(default_factory=set)


class Memory:
    """All memory of a program."""

    def __init__(self) -> None:
        self._lifetimes: dict[AllocationId, _Lifetime] = {}

    def allocate(self, allocation: AllocationId, home: StreamId, n_bytes: int, after: OpId) -> None:
        """Begin an allocation after an operation of its home stream."""
        self._lifetimes[allocation] = _Lifetime(home, n_bytes, after)

    def record_stream(self, allocation: AllocationId, stream: StreamId) -> None:
        """Record that the allocator waits for a stream before it hands out the memory again."""
        lifetime = self._lifetimes.get(allocation)
        if lifetime is not None:
            lifetime.recorded.add(stream)

    def free(self, allocation: AllocationId) -> tuple[StreamId, list[tuple[StreamId, OpId]]]:
        """Return the home stream, and the last uses on other streams that `record_stream` does not protect."""
        lifetime = self._lifetimes.pop(allocation, None)
        if lifetime is None or not lifetime.home:
            return StreamId(0), []
        uses = [(s, op) for s, op in lifetime.users.items() if s not in {lifetime.home, *lifetime.recorded} and s]
        return lifetime.home, uses

    def first_touch(self, allocation: AllocationId, stream: StreamId) -> tuple[StreamId, OpId] | None:
        """Return the home stream's last operation before the allocation, if another stream accesses it first."""
        lifetime = self._lifetimes.get(allocation)
        if (
            lifetime is None
            or not lifetime.home
            or stream == lifetime.home
            or stream in lifetime.users
            or lifetime.allocated_after == NEVER
        ):
            return None
        return lifetime.home, lifetime.allocated_after

    def access(
        self, allocation: AllocationId, footprint: Footprint, stream: StreamId, op: OpId, *, is_write: bool
    ) -> set[OpId]:
        """Record an access, and return the operations that must have ended before it. The host is stream 0."""
        lifetime = self._lifetimes.setdefault(allocation, _Lifetime(StreamId(0), footprint.stop, NEVER))
        if footprint.start == footprint.stop:
            return set()
        if len(lifetime.cells) >= _MAX_CELLS and footprint not in lifetime.cells:
            _merge(lifetime)
            footprint = dense(0, max(lifetime.n_bytes, footprint.stop))
        before = set(_conflicts(lifetime, footprint, is_write=is_write))
        before.discard(op)
        if stream:
            lifetime.users[stream] = op
            _note(lifetime, footprint, stream, op, is_write=is_write)
        return before


def _conflicts(lifetime: _Lifetime, footprint: Footprint, *, is_write: bool) -> Iterator[OpId]:
    for known, cell in lifetime.cells.items():
        if known == footprint or overlap(known, footprint):
            yield from cell.writes.values()
            if is_write:
                yield from cell.reads.values()


def _note(lifetime: _Lifetime, footprint: Footprint, stream: StreamId, op: OpId, *, is_write: bool) -> None:
    cells = lifetime.cells
    if is_write:
        if len(cells) > 1:
            for known in [known for known in cells if known != footprint and contains(footprint, known)]:
                del cells[known]
        cells[footprint] = _Cell({stream: op})
        return
    cells.setdefault(footprint, _Cell()).reads[stream] = op


def _merge(lifetime: _Lifetime) -> None:
    """Merge all cells of an allocation with too many parts into one."""
    merged_cell = _Cell()
    for cell in lifetime.cells.values():
        for merged, latest in ((merged_cell.writes, cell.writes), (merged_cell.reads, cell.reads)):
            for stream, op in latest.items():
                merged[stream] = max(merged.get(stream, NEVER), op)
    end = max([lifetime.n_bytes, *(footprint.stop for footprint in lifetime.cells)])
    lifetime.cells = {dense(0, end): merged_cell}
