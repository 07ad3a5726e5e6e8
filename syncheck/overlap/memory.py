"""Dependencies between operations through memory, and the reuse of freed memory."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from syncheck.hb.footprint import Footprint, contains, dense, overlap
from syncheck.hb.ids import AllocationId, StreamId
from syncheck.overlap.ids import OpId

_MOST_CELLS = 64
"""Maximum number of cells per allocation that are tracked separately."""

NEVER = -1


@dataclass(slots=True)
class _Cell:
    """A range of bytes: each stream's latest write, and its latest read since the last write."""

    writes: dict[StreamId, OpId] = field(default_factory=dict)
    reads: dict[StreamId, OpId] = field(default_factory=dict)


@dataclass(slots=True)
class _Life:
    """State of one allocation.

    Attributes:
        born_after: the last operation of its home stream before the allocation.
        users: stream -> its last operation that used the allocation.
        recorded: streams passed to `record_stream`.
    """

    home: StreamId
    n_bytes: int
    born_after: OpId
    cells: dict[Footprint, _Cell] = field(default_factory=dict)
    users: dict[StreamId, OpId] = field(default_factory=dict)
    recorded: set[StreamId] = field(default_factory=set)


class Memory:
    """All memory of a program."""

    def __init__(self) -> None:
        self._lives: dict[AllocationId, _Life] = {}

    def allocate(self, allocation: AllocationId, home: StreamId, n_bytes: int, after: OpId) -> None:
        """Begin an allocation after an operation of its home stream."""
        self._lives[allocation] = _Life(home, n_bytes, after)

    def record_stream(self, allocation: AllocationId, stream: StreamId) -> None:
        """Record that the allocator waits for a stream before it hands out the memory again."""
        life = self._lives.get(allocation)
        if life is not None:
            life.recorded.add(stream)

    def free(self, allocation: AllocationId) -> tuple[StreamId, list[tuple[StreamId, OpId]]]:
        """Return the home stream, and the last uses on other streams that `record_stream` does not protect."""
        life = self._lives.pop(allocation, None)
        if life is None or not life.home:
            return StreamId(0), []
        uses = [(s, op) for s, op in life.users.items() if s not in {life.home, *life.recorded} and s]
        return life.home, uses

    def first_touch(self, allocation: AllocationId, stream: StreamId) -> tuple[StreamId, OpId] | None:
        """Return the home stream's last operation before the allocation, if another stream accesses it first."""
        life = self._lives.get(allocation)
        if life is None or not life.home or stream == life.home or stream in life.users or life.born_after == NEVER:
            return None
        return life.home, life.born_after

    def access(
        self, allocation: AllocationId, footprint: Footprint, stream: StreamId, op: OpId, *, is_write: bool
    ) -> set[OpId]:
        """Record an access, and return the operations that must have ended before it. The host is stream 0."""
        life = self._lives.setdefault(allocation, _Life(StreamId(0), footprint.stop, NEVER))
        if footprint.start == footprint.stop:
            return set()
        if len(life.cells) >= _MOST_CELLS and footprint not in life.cells:
            _merge(life)
            footprint = dense(0, max(life.n_bytes, footprint.stop))
        before = set(_conflicts(life, footprint, is_write=is_write))
        before.discard(op)
        if stream:
            life.users[stream] = op
            _note(life, footprint, stream, op, is_write=is_write)
        return before


def _conflicts(life: _Life, footprint: Footprint, *, is_write: bool) -> Iterator[OpId]:
    for known, cell in life.cells.items():
        if known == footprint or overlap(known, footprint):
            yield from cell.writes.values()
            if is_write:
                yield from cell.reads.values()


def _note(life: _Life, footprint: Footprint, stream: StreamId, op: OpId, *, is_write: bool) -> None:
    cells = life.cells
    if is_write:
        if len(cells) > 1:
            for known in [known for known in cells if known != footprint and contains(footprint, known)]:
                del cells[known]
        cells[footprint] = _Cell({stream: op})
        return
    cells.setdefault(footprint, _Cell()).reads[stream] = op


def _merge(life: _Life) -> None:
    """Merge all cells of an allocation with too many parts into one."""
    whole = _Cell()
    for cell in life.cells.values():
        for merged, latest in ((whole.writes, cell.writes), (whole.reads, cell.reads)):
            for stream, op in latest.items():
                merged[stream] = max(merged.get(stream, NEVER), op)
    end = max([life.n_bytes, *(footprint.stop for footprint in life.cells)])
    life.cells = {dense(0, end): whole}
