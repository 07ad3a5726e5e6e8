"""A slow and simple reference for the happens-before engine: a graph of ops and path queries.

Every op is a node, every edge corresponds to one line of the table of happens-before edges, an access is a set of byte
indices, and nothing is ever forgotten. There are no epochs, vector clocks or shortcuts.

The reference shares these definitions with the engine:
    - the start of a stream counts as its first op (the allocator may hand out memory before any launch);
    - an allocation counts as a write of the whole block at the last launch of its home stream;
    - memory of a pool with a negative number has no reuse or first-use hazards;
    - a use of a freed block is reported once: the allocation that may reuse the block removes it from the list.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

SMALL_BYTES = 1 << 20
HOST = 0


class View(NamedTuple):
    """A strided view: byte offset of the first element, sizes and strides in elements, bytes per element."""

    start: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    item_size: int = 1


def bytes_of(view: View) -> frozenset[int]:
    """Return the bytes of a view, computed element by element."""
    return frozenset(
        view.start + view.item_size * sum(map(int.__mul__, index, view.strides)) + byte
        for index in product(*map(range, view.sizes))
        for byte in range(view.item_size)
    )


@dataclass(slots=True)
class Stream:
    """A stream: its start, its last node, and its last launch (its start if there is none)."""

    device: int
    kind: str
    begin: int
    tail: int
    last_launch: int


class Access(NamedTuple):
    """A past access. `label` names the launch."""

    node: int
    actor: int
    label: int
    touched: frozenset[int]
    is_write: bool


class Conflict(NamedTuple):
    """An earlier access that a new one is unordered with, or None for the allocation itself."""

    prior: Access | None
    is_write: bool


@dataclass(slots=True)
class Block:
    """One allocation with every access to it."""

    home: int
    born: int
    n_bytes: int
    pool: int
    label: int
    recorded: set[int] = field(default_factory=set)
    accesses: list[Access] = field(default_factory=list)


class FreedAccess(NamedTuple):
    """A use of freed memory that its home stream was not ordered after when the memory was freed.

    `is_last` marks uses that the engine has to remember: no use of the block on another stream comes after them, so no
    other entry covers them.
    """

    allocation: int
    block: Block
    use: Access
    is_last: bool

    @property
    def cause(self) -> tuple[int, int, int]:
        """The key shared by equivalent uses: stream and call site of the use, call site of the allocation."""
        return self.use.actor, self.use.label, self.block.label


class Reuse(NamedTuple):
    """Uses that an allocation may overlap: those that may be reported, and those of them that must be."""

    may: list[FreedAccess]
    must: list[FreedAccess]


class Reference:
    """Takes the same ops as the engine, on a graph that only grows."""

    def __init__(self) -> None:
        self._before: list[set[int]] = []  # node -> all nodes with a path to it
        self._work: set[int] = set()  # nodes that are not mere waits: launches and stream starts
        self._host = self._node()
        self.streams: dict[int, Stream] = {}
        self._events: dict[int, int] = {}  # event -> node of its latest record
        self.blocks: dict[int, Block] = {}
        self._freed: list[FreedAccess] = []

    def _node(self, *after: int) -> int:
        self._before.append(set(after).union(*(self._before[node] for node in after)))
        return len(self._before) - 1

    # -- actors

    def add_stream(self, device: int, kind: str) -> int:
        """Add a "legacy", "blocking" or "pool" stream."""
        begin = self._node(self._host)
        self._work.add(begin)
        self.streams[len(self.streams) + 1] = Stream(device, kind, begin, begin, begin)
        return len(self.streams)

    def _next(self, stream: int) -> list[int]:
        """Return the direct predecessors of an op submitted to the stream now."""
        this = self.streams[stream]
        return [this.tail, self._host] + [
            other.tail
            for other in self.streams.values()
            if other.device == this.device and {other.kind, this.kind} == {"legacy", "blocking"}
        ]

    def _submit(self, stream: int, *after: int) -> int:
        node = self.streams[stream].tail = self._node(*self._next(stream), *after)
        return node

    def _known(self, after: Iterable[int]) -> set[int]:
        """Return everything that happens before an op with these direct predecessors."""
        after = list(after)
        return set(after).union(*(self._before[node] for node in after))

    # -- order

    def record(self, event: int, stream: int) -> None:
        self._events[event] = self._submit(stream)

    def forget_event(self, event: int) -> None:
        self._events.pop(event, None)

    def wait(self, event: int, stream: int) -> bool | None:
        """Return whether the wait ordered any unordered work, or None if the event was never recorded."""
        if event not in self._events:
            return None
        return self._wait(stream, self._events[event])

    def wait_stream(self, stream: int, other: int) -> bool:
        return self._wait(stream, self._submit(other))

    def _wait(self, stream: int, snapshot: int) -> bool:
        known = self._known(self._next(stream))
        node = self._submit(stream, snapshot)
        return bool((self._before[node] - known) & self._work)

    def sync_event(self, event: int) -> bool | None:
        if event not in self._events:
            return None
        return self._sync([self._events[event]])

    def sync_stream(self, stream: int) -> bool:
        return self._sync(self._next(stream))

    def sync_device(self, device: int) -> bool:
        return self._sync([n for ident, s in self.streams.items() if s.device == device for n in self._next(ident)])

    def _sync(self, after: list[int]) -> bool:
        known = self._known([self._host])
        self._host = self._node(self._host, *after)
        return bool((self._before[self._host] - known) & self._work)

    def unfinished(self) -> set[int]:
        """Return the streams with a launch that the host has not waited for."""
        known = self._known([self._host])
        return {i for i, s in self.streams.items() if s.last_launch != s.begin and s.last_launch not in known}

    # -- memory

    def allocate(self, allocation: int, home: int, n_bytes: int, pool: int, label: int) -> Reuse:
        born = self._host if home == HOST else self.streams[home].last_launch
        self.blocks[allocation] = Block(home, born, n_bytes, pool, label)
        if pool < 0:
            return Reuse([], [])
        known = self._known(self._next(home))
        hit = [
            freed
            for freed in self._freed
            if (freed.block.home, freed.block.pool) == (home, pool)
            and freed.use.node not in known
            and (freed.block.n_bytes <= SMALL_BYTES) == (n_bytes <= SMALL_BYTES)
        ]
        self._freed = [freed for freed in self._freed if freed not in hit]
        return Reuse(hit, [freed for freed in hit if freed.is_last])

    def record_stream(self, allocation: int, stream: int) -> None:
        self.blocks[allocation].recorded.add(stream)

    def free(self, allocation: int) -> set[int]:
        """Free a block. Return the streams whose `record_stream` protects nothing."""
        block = self.blocks.pop(allocation)
        if block.pool < 0:
            return set()
        recorded = block.recorded - {block.home}
        self._freed += self._unprotected(allocation, block, recorded)
        needs = {r: self._unprotected(allocation, block, recorded - {r}) for r in recorded}
        last = [freed for freed in self._unprotected(allocation, block, recorded) if freed.is_last]
        return {r for r, need in needs.items() if [freed for freed in need if freed.is_last] == last}

    def _unprotected(self, allocation: int, block: Block, recorded: set[int]) -> list[FreedAccess]:
        """Return the uses that neither the home stream nor a recorded stream is ordered after now.

        Source:
            CUDACachingAllocator `insert_events`: at the free an event is recorded on each recorded stream, and the
            block is not handed out before they complete. Such an event comes after everything its stream waited for.
        """
        safe = self._known(self._next(block.home)).union(*(self._known(self._next(stream)) for stream in recorded))
        return [
            FreedAccess(allocation, block, use, is_last=not any(self._follows(use, other) for other in block.accesses))
            for use in block.accesses
            if use.node not in safe
        ]

    def _follows(self, use: Access, other: Access) -> bool:
        return use.node in self._before[other.node]

    # -- accesses

    def launch(self, stream: int, accesses: Sequence[tuple[int, View, bool]], label: int) -> dict[int, list[Conflict]]:
        """Return, for each allocation, the conflicting accesses that the launch is not ordered after."""
        node = self._submit(stream)
        self.streams[stream].last_launch = node
        self._work.add(node)
        news = [(a, Access(node, stream, label, bytes_of(view), is_write)) for a, view, is_write in accesses]
        found: dict[int, list[Conflict]] = {}
        for allocation, access in news:
            found.setdefault(allocation, []).extend(self._conflicts(self.blocks[allocation], access))
        for allocation, access in news:
            if access.touched:
                self.blocks[allocation].accesses.append(access)
        return found

    def host_access(self, allocation: int, view: View, *, is_write: bool) -> list[Conflict]:
        self._host = self._node(self._host)
        return self._conflicts(self.blocks[allocation], Access(self._host, HOST, 0, bytes_of(view), is_write))

    def _conflicts(self, block: Block, access: Access) -> list[Conflict]:
        before = self._before[access.node]
        found = [
            Conflict(prior, access.is_write)
            for prior in block.accesses
            if prior.touched & access.touched and (prior.is_write or access.is_write) and prior.node not in before
        ]
        if access.touched and block.pool >= 0 and block.born not in before:
            found.append(Conflict(None, access.is_write))
        return found
