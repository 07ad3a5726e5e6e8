"""A slow and plain reference for the happens-before engine: a graph of ops, and the question "is there a path?".

Every op is a node, every edge is one line of the table of happens-before edges, an access is a set of byte
indices, and nothing is ever forgotten. There is no epoch, no vector clock, no shortcut.

What the reference takes over from the engine's definitions:
    - the beginning of a stream counts as its first op (the allocator may hand out memory before any launch);
    - an allocation counts as a write of the whole block at the last launch of its home stream;
    - pools with a negative number never hand memory to anyone who could not have it: no hazard of either kind;
    - a freed block is reported once: the allocation that may run into it takes it off the list.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

SMALL_BYTES = 1 << 20
HOST = 0


class View(NamedTuple):
    """A strided view: byte offset of the first element; sizes and strides in elements; bytes of an element."""

    start: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    item_size: int = 1


def bytes_of(view: View) -> frozenset[int]:
    """List the bytes of a view, element by element."""
    return frozenset(
        view.start + view.item_size * sum(map(int.__mul__, index, view.strides)) + byte
        for index in product(*map(range, view.sizes))
        for byte in range(view.item_size)
    )


@dataclass(slots=True)
class Stream:
    """A stream: its beginning, its last node, and its last launch (before the first one: its beginning)."""

    device: int
    kind: str
    begin: int
    tail: int
    last_launch: int


class Access(NamedTuple):
    """One access of the past. `label` names the launch."""

    node: int
    actor: int
    label: int
    touched: frozenset[int]
    is_write: bool


class Conflict(NamedTuple):
    """An earlier access, or None for the allocation itself, that a new one is not ordered with."""

    prior: Access | None
    is_write: bool


@dataclass(slots=True)
class Block:
    """One allocation's life, with every access to it."""

    home: int
    born: int
    n_bytes: int
    pool: int
    label: int
    recorded: set[int] = field(default_factory=set)
    accesses: list[Access] = field(default_factory=list)


class FreedAccess(NamedTuple):
    """A use of freed memory that its home stream was not ordered after at the free.

    `is_last` marks those that the engine has to remember: no other stream's use of the block comes after it, so that
    no other entry stands for it.
    """

    allocation: int
    block: Block
    use: Access
    is_last: bool

    @property
    def cause(self) -> tuple[int, int, int]:
        """What uses with one cause have in common: user stream, call site of the use, of the allocation."""
        return self.use.actor, self.use.label, self.block.label


class Reuse(NamedTuple):
    """What an allocation may run into: uses that may be reported, and those among them that must be."""

    may: list[FreedAccess]
    must: list[FreedAccess]


class Reference:
    """The same ops as the engine's, on a graph that only grows."""

    def __init__(self) -> None:
        self._before: list[set[int]] = []  # node -> all nodes with a path to it
        self._work: set[int] = set()  # nodes that wait for nothing but do something: launches and beginnings
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
        """What an op submitted to the stream at this moment comes directly after."""
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
        """All that happens before an op which comes directly after these."""
        after = list(after)
        return set(after).union(*(self._before[node] for node in after))

    # -- order

    def record(self, event: int, stream: int) -> None:
        self._events[event] = self._submit(stream)

    def forget_event(self, event: int) -> None:
        self._events.pop(event, None)

    def wait(self, event: int, stream: int) -> bool | None:
        """Return whether the wait ordered any work that was not ordered; None if the event was never recorded."""
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
        """Streams that were given a launch which the host does not know to be complete."""
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
        """End a life; return the streams whose `record_stream` protects nothing."""
        block = self.blocks.pop(allocation)
        if block.pool < 0:
            return set()
        recorded = block.recorded - {block.home}
        self._freed += self._unprotected(allocation, block, recorded)
        needs = {r: self._unprotected(allocation, block, recorded - {r}) for r in recorded}
        last = [freed for freed in self._unprotected(allocation, block, recorded) if freed.is_last]
        return {r for r, need in needs.items() if [freed for freed in need if freed.is_last] == last}

    def _unprotected(self, allocation: int, block: Block, recorded: set[int]) -> list[FreedAccess]:
        """Uses that neither the home stream nor a recorded stream is ordered after at this moment.

        Source:
            CUDACachingAllocator `insert_events`: at the free an event is recorded on each recorded stream, and the
            block is not handed out before they are complete. Such an event comes after all that its stream waited for.
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
        """Return, for each allocation, what the launch conflicts with and is not ordered after."""
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
