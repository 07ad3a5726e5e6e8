"""Which earlier operations an operation depends on by memory, and whose memory may be used again."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from syncheck.hb.footprint import Footprint, contains, dense, overlap
from syncheck.hb.ids import AllocationId, StreamId
from syncheck.overlap.ids import OpId

_MOST_CELLS = 64
"""Parts of one allocation that are looked at one by one."""

NEVER = -1


@dataclass(slots=True)
class _Cell:
    """Some bytes: stream -> its latest write, and its latest read since."""

    writes: dict[StreamId, OpId] = field(default_factory=dict)
    reads: dict[StreamId, OpId] = field(default_factory=dict)


@dataclass(slots=True)
class _Life:
    """One allocation.

    Attributes:
        born_after: the last operation of its home stream before it was made.
        users: stream -> its last operation that used it.
        recorded: streams that `record_stream` has named.
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
        """An allocation's life begins after an operation of its home stream."""
        self._lives[allocation] = _Life(home, n_bytes, after)

    def record_stream(self, allocation: AllocationId, stream: StreamId) -> None:
        """The allocator waits for a stream before it hands the memory out again."""
        life = self._lives.get(allocation)
        if life is not None:
            life.recorded.add(stream)

    def free(self, allocation: AllocationId) -> tuple[StreamId, list[tuple[StreamId, OpId]]]:
        """Return the home stream, and the last uses on other streams that nothing but an order protects."""
        life = self._lives.pop(allocation, None)
        if life is None or not life.home:
            return StreamId(0), []
        uses = [(s, op) for s, op in life.users.items() if s not in {life.home, *life.recorded} and s]
        return life.home, uses

    def first_touch(self, allocation: AllocationId, stream: StreamId) -> tuple[StreamId, OpId] | None:
        """Return the home stream's last operation before the allocation, where another stream touches it first."""
        life = self._lives.get(allocation)
        if life is None or not life.home or stream == life.home or stream in life.users or life.born_after == NEVER:
            return None
        return life.home, life.born_after

    def access(
        self, allocation: AllocationId, footprint: Footprint, stream: StreamId, op: OpId, *, is_write: bool
    ) -> set[OpId]:
        """Note an access; return the operations that must have ended before it. The host is stream 0."""
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
    """Make one cell of all: what is left of an allocation of very many parts."""
    whole = _Cell()
    for cell in life.cells.values():
        for merged, latest in ((whole.writes, cell.writes), (whole.reads, cell.reads)):
            for stream, op in latest.items():
                merged[stream] = max(merged.get(stream, NEVER), op)
    end = max([life.n_bytes, *(footprint.stop for footprint in life.cells)])
    life.cells = {dense(0, end): whole}
