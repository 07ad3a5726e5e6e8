"""Memory pools of CUDA graphs: which graphs may use the same memory, because their captures shared a pool.

A capture takes memory that earlier captures with its pool have freed, such as their temporaries. Replays of such graphs
use the same addresses. Only memory of the same stream and size class can be shared, as in the allocator. Whether a
capture really received that memory is not considered, because it depends on sizes.

Source:
    docs/source/notes/cuda.rst, "Graph memory management": graphs that share a pool must be replayed in the order of
    their captures, and never concurrently; CUDACachingAllocator.cpp, `get_free_block`: blocks are kept by stream.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from syncheck.hb.cells import AccessRecord
from syncheck.hb.engine import Engine, Race
from syncheck.hb.footprint import dense
from syncheck.hb.ids import NO_ALLOCATION, AllocationId, GraphId, StreamId
from syncheck.hb.memory import SMALL_BYTES

OWN_POOL = 0
"""The pool of a graph that does not share its memory."""
_NO_GRAPHS: frozenset[GraphId] = frozenset()
_ANY_BYTE = dense(0, 1)


class _Slot(NamedTuple):
    """Memory of a pool that the allocator may give to the same allocations."""

    pool: int
    home: StreamId
    is_small: bool


class _Owned(NamedTuple):
    """A live allocation of a capture.

    Attributes:
        graph: the captured graph.
        slot: the memory that it comes from.
        lenders: graphs that had freed memory of that slot before.
    """

    graph: GraphId
    slot: _Slot
    lenders: frozenset[GraphId]


@dataclass(slots=True)
class _Member:
    """A graph that may share memory.

    Attributes:
        pool: its pool.
        sharers: the other graphs that may use the same memory.
        lent: live allocations of later captures that its replays may overwrite.
        replay: its latest replay, which follows its earlier ones; None before the first.
    """

    pool: int
    sharers: set[GraphId] = field(default_factory=set)
    lent: set[AllocationId] = field(default_factory=set)
    replay: AccessRecord | None = None


class GraphPools:
    """Tracks the memory that captures take from shared pools."""

    def __init__(self) -> None:
        self._members: dict[GraphId, _Member] = {}
        self._freed: dict[_Slot, frozenset[GraphId]] = {}  # the graphs that have freed memory of a slot
        self._owned: dict[AllocationId, _Owned] = {}

    def begin(self, graph: GraphId, pool: int) -> None:
        """Note that a capture with a pool begins."""
        if pool != OWN_POOL:
            self._members[graph] = _Member(pool)

    def allocated(self, graph: GraphId, allocation: AllocationId, home: StreamId, n_bytes: int) -> None:
        """Note an allocation of the capture in progress."""
        member = self._members.get(graph)
        if member is None:
            return
        slot = _Slot(member.pool, home, n_bytes <= SMALL_BYTES)
        lenders = self._freed.get(slot, _NO_GRAPHS) - {graph}
        self._owned[allocation] = _Owned(graph, slot, lenders)
        if not lenders <= member.sharers:
            member.sharers |= lenders
            for lender in lenders:
                self._members[lender].sharers.add(graph)

    def end(self, graph: GraphId) -> None:
        """Note the end of a capture: the allocations that are still live are its results."""
        if graph in self._members:
            for allocation, owned in self._owned.items():
                if owned.graph == graph:
                    for lender in owned.lenders:
                        self._members[lender].lent.add(allocation)

    def freed(self, allocation: AllocationId) -> None:
        """Note a free, after which later captures may take the memory."""
        owned = self._owned.pop(allocation, None)
        if owned is not None:
            self._freed[owned.slot] = self._freed.get(owned.slot, _NO_GRAPHS) | {owned.graph}
            for lender in owned.lenders:
                self._members[lender].lent.discard(allocation)

    def replayed(self, graph: GraphId, stream: StreamId, label: int, engine: Engine) -> list[Race]:
        """Return the races of a replay, just submitted to a stream, on memory that it may share."""
        member = self._members.get(graph)
        if member is None:
            return []
        replay = AccessRecord(stream, engine.now(stream), label, _ANY_BYTE, is_write=True)
        races = [
            Race(NO_ALLOCATION, other, replay, is_in_pool=True)
            for other in (self._members[sharer].replay for sharer in sorted(member.sharers))
            if other is not None and not engine.covers(stream, other.epoch)
        ]
        for allocation in sorted(member.lent):
            races += [
                Race(allocation, use, replay._replace(footprint=use.footprint), is_in_pool=True)
                for use in engine.unordered_uses(allocation, stream)
            ]
        member.replay = replay
        return races
