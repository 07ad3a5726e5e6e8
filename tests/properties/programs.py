"""Random programs for the engine."""

import os
from collections.abc import Sequence
from typing import TypeVar

from hypothesis import strategies as st

from tests.properties.ops import (
    LARGE,
    SMALL,
    AddStream,
    Allocate,
    ForgetEvent,
    Free,
    HostAccess,
    Launch,
    Op,
    Program,
    Record,
    RecordStream,
    SyncDevice,
    SyncEvent,
    SyncStream,
    Wait,
    WaitStream,
)
from tests.properties.reference import HOST, View

N_PROGRAMS = int(os.environ.get("SYNCHECK_AGREE", "250"))
BLOCK_BYTES = 24
"""Views stay within this few bytes so that they often overlap."""

MAX_STREAMS = 5

T = TypeVar("T")


@st.composite
def views(draw: st.DrawFn, n_bytes: int = BLOCK_BYTES, max_stride: int = 8) -> View:
    """Draw a view of up to three dimensions in one block: dense, strided, half of the columns, or self-overlapping."""
    item_size = draw(st.sampled_from([1, 1, 2]))
    sizes: list[int] = []
    strides: list[int] = []
    room = n_bytes // item_size - 1
    for _ in range(draw(st.integers(0, 3))):
        stride = draw(st.integers(0, max_stride))
        size = draw(st.integers(1, min(8, 1 + room // stride) if stride else 3))
        room -= stride * (size - 1)
        sizes.append(size)
        strides.append(stride)
    start = draw(st.integers(0, room)) * item_size
    return View(start, tuple(sizes), tuple(strides), item_size)


_SOME_VIEWS = (
    View(0, (BLOCK_BYTES,), (1,)),
    View(0, (4, 3), (6, 1)),  # the left half of a 4 x 6 matrix
    View(3, (4, 3), (6, 1)),  # its right half
    View(0, (12,), (1,)),
    View(12, (12,), (1,)),
)


class _Writer:
    """Turns rows of random bytes into valid ops, and drops rows that make none."""

    def __init__(self, some_views: list[View], n_devices: int, n_homes: int) -> None:
        self.views = [*_SOME_VIEWS, *some_views]
        self.n_devices = n_devices
        self.n_homes = n_homes  # number of streams that allocate memory
        self.devices: list[int] = []
        self.legacy: set[int] = set()
        self.live: list[int] = []
        self.pinned: list[int] = []
        self.homes: dict[int, int] = {}
        self.n_allocations = 0
        self.row = iter(b"")

    def number(self, below: int) -> int:
        return next(self.row) % below

    def pick(self, some: Sequence[T]) -> T:
        return some[self.number(len(some))]

    def make(self, row: bytes) -> list[Op]:
        """Return the ops for a row. A row of zeros gives none, so that shrinking can remove it."""
        self.row = iter(row)
        make = self.pick(_KINDS)
        if make is None:
            return []
        if make in _NEEDING_BLOCKS:
            needed = self.live + self.pinned
        else:
            needed = {_Writer.host: self.pinned, _Writer.record_stream: self.live}.get(make, self.devices)
        made = make(self) if needed or make is _Writer.add_stream else []
        return made if isinstance(made, list) else [made]

    def stream(self) -> int:
        return 1 + self.number(len(self.devices))

    def event(self) -> int:
        return self.number(3)

    def add_stream(self) -> Op | list[Op]:
        if len(self.devices) == MAX_STREAMS:
            return []
        device = self.number(self.n_devices)
        kind = self.pick(("pool", "legacy", "blocking"))
        if kind == "legacy" and device in self.legacy:
            kind = "blocking"
        if kind == "legacy":
            self.legacy.add(device)
        self.devices.append(device)
        return AddStream(len(self.devices), device, kind)

    def allocate(self) -> list[Op]:
        if self.number(8) == 0:
            return self.new_block(HOST)
        return self.new_block(1 + self.number(min(self.n_homes, len(self.devices))))

    def new_block(self, home: int) -> list[Op]:
        """Allocate a block. Usually another stream then waits for the home stream and uses the block."""
        self.n_allocations += 1
        (self.live if home else self.pinned).append(self.n_allocations)
        self.homes[self.n_allocations] = home
        if home == HOST:
            return [Allocate(self.n_allocations, HOST, SMALL, -1)]
        block = Allocate(self.n_allocations, home, self.pick((SMALL, SMALL, LARGE)), self.pick((0, 0, 0, 0, 7, -2)))
        user = self.stream()
        use = Launch(user, ((self.n_allocations, self.pick(self.views), self.number(2) == 1),))
        return [block, *self.pick(((), (WaitStream(user, home),), (WaitStream(user, home), use)))]

    def reallocate(self) -> list[Op]:
        """Free one or more blocks, perhaps wait for an event, and allocate one on the first one's home stream."""
        frees = self.drop()
        home = self.homes[frees[0].allocation]
        wait = [Wait(self.event(), home)] if home != HOST and self.number(2) else []
        return [*frees, *wait, *self.new_block(home)]

    def drop(self) -> list[Free]:
        """Free one or more blocks in any order."""
        return [self.free() for _ in range(min(self.pick((1, 1, 2, 3)), len(self.live + self.pinned)))]

    def launch(self) -> Launch:
        stream = self.stream()
        count = self.pick((1, 1, 2, 3))
        usable = self.live + self.pinned
        return Launch(
            stream, tuple((self.pick(usable), self.pick(self.views), self.number(2) == 1) for _ in range(count))
        )

    def careful_launch(self) -> list[Op]:
        """Launch after waiting for most other streams, so that histories grow long before they race."""
        launch = self.launch()
        others = [stream for stream in range(1, 1 + len(self.devices)) if stream != launch.stream]
        return [*(WaitStream(launch.stream, other) for other in others if self.number(4)), launch]

    def host(self) -> Op:
        return HostAccess(self.pick(self.pinned), self.pick(self.views), self.number(2) == 1)

    def free(self) -> Free:
        allocation = self.pick(self.live + self.pinned)
        (self.live if allocation in self.live else self.pinned).remove(allocation)
        return Free(allocation)

    def record_stream(self) -> Op:
        return RecordStream(self.pick(self.live), self.stream())

    def wait_stream(self) -> Op:
        return WaitStream(self.stream(), self.stream())

    def record(self) -> Op:
        return Record(self.event(), self.stream())

    def wait(self) -> Op:
        return Wait(self.event(), self.stream())

    def rare_op(self) -> Op:
        match self.number(4):
            case 0:
                return SyncEvent(self.event())
            case 1:
                return SyncStream(self.stream())
            case 2:
                return SyncDevice(self.number(self.n_devices))
            case _:
                return ForgetEvent(self.event())


_KINDS = (
    None,
    *[_Writer.launch] * 5,
    *[_Writer.careful_launch] * 5,
    *[_Writer.allocate] * 2,
    _Writer.drop,
    *[_Writer.reallocate] * 2,
    *[_Writer.wait_stream] * 3,
    *[_Writer.record] * 2,
    *[_Writer.wait] * 2,
    *[_Writer.add_stream] * 2,
    _Writer.record_stream,
    _Writer.host,
    _Writer.rare_op,
)
_NEEDING_BLOCKS = (_Writer.launch, _Writer.careful_launch, _Writer.drop, _Writer.reallocate)


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Draw a program with up to five streams on up to three devices."""
    writer = _Writer(
        draw(st.lists(views(), max_size=4)), draw(st.sampled_from([1, 1, 2, 3])), draw(st.sampled_from([1, 1, 2, 5]))
    )
    first_prune = draw(st.sampled_from([64, 1, 2]))
    n_sites = draw(st.sampled_from([0, 0, 1, 2]))
    rows = [
        *(bytes([_KINDS.index(_Writer.add_stream)]) + row for row in draw(_rows(2, 1, 4))),
        *(bytes([_KINDS.index(_Writer.allocate)]) + row for row in draw(_rows(8, 1, 3))),
        *draw(_rows(18, 20, 40)),
    ]
    return Program(tuple(op for row in rows for op in writer.make(row)), n_sites, first_prune)


def _rows(n_bytes: int, min_size: int, max_size: int) -> st.SearchStrategy[list[bytes]]:
    return st.lists(st.binary(min_size=n_bytes, max_size=n_bytes), min_size=min_size, max_size=max_size)
