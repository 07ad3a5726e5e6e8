"""The GPUs of a program that is only read: what its calls do is told to a session of the sanitizer."""

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from syncheck.lint.interp.sites import Places
from syncheck.lint.interp.values import WHOLE, Block, ClockReading, Event, Life, Part, Stream, Tensor
from syncheck.sanitizer.session import Session

N_DEVICES = 8
_ROW = 1 << 16
_ROWS = 1 << 10
_READ_PART, _WRITTEN_PARTS = _ROW * _ROWS, _ROW * _ROWS + 1
_MOST_PARTS = 1 << 12
_N_BYTES = _WRITTEN_PARTS + _MOST_PARTS
UNKNOWN_POOL = -3

Access = tuple[Tensor, bool]
"""A tensor, and whether it is written."""


@dataclass(slots=True)
class ThreadState:
    r"""What is current in one thread.

    Attributes:
            streams: device -> current stream; 0 where nobody knows which one.
            contexts: (stream, call site) of the entered blocks, innermost last.
    \        expected_stream: the starter's stream that this thread should have made current and did not; 0 if none.
            inherited: what was current in the thread that started this one; None once looked at.
    """

    device: int = 0
    streams: dict[int, int] = field(default_factory=dict)
    contexts: list[tuple[int, int]] = field(default_factory=list)
    expected_stream: int = 0
    inherited: "ThreadState | None" = None
    set_explicitly: bool = False


class Machine:
    """Streams, events and memory.

    Attributes:
        session: checks.
        n_relevant: things met that a finding can begin with, also in branches that are only looked through.
        ordering_only: above 0 while a branch is only looked through for what it orders: then nothing works on memory.
        function: the name of the function that runs, for places.
    """

    def __init__(self, session: Session, places: Places) -> None:
        self.session = session
        self.places = places
        self.ordering_only = 0
        self.function = ""
        self.n_relevant = 0
        self.computing: set[int] = set()  # streams that ran more than copies
        self.thread = ThreadState()
        self.current_node: ast.AST = ast.Pass(lineno=1, col_offset=0)
        self.named: list[int] = []  # allocations that new findings are about
        self.synced: Callable[[], None] = _nothing_to_do
        self.watch: Callable[[list[Access], ast.AST], None] = _unwatched
        self._defaults: list[int] = []
        self._n_streams = 0
        self._n_parts = 0
        self._idents = 0
        self._devices: list[int] = []  # stream - 1 -> its device
        self._views: dict[tuple[int, int], int] = {}
        for device in range(N_DEVICES):
            self._defaults.append(self._new_stream(device, 0, 0, legacy=True))

    # -- places

    def site(self, node: ast.AST | None = None) -> int:
        """Return the call site of a node, or of the statement that runs."""
        return self.places.id_of(node or self.current_node, self.function)

    def ident(self) -> int:
        """Return a new number for an event, an allocation or a graph."""
        self._idents += 1
        return self._idents

    # -- streams

    def _new_stream(self, device: int, handle: int, site: int, *, legacy: bool = False) -> int:
        self._n_streams += 1
        self._devices.append(device)
        self.session.stream(self._n_streams, device, handle, site, legacy=legacy, blocking=False)
        return self._n_streams

    def new_stream(self, device: int, node: ast.AST, *, is_made: bool = True) -> Stream:
        """Make a stream."""
        self.n_relevant += 1
        site = self.site(node)
        stream = Stream(self._new_stream(device, self._n_streams + 1, site), device)
        if is_made:
            stream.life = self.life("stream", site)
        return stream

    def life(self, thing: str, site: int) -> "Life | None":
        """Announce a stream or a timing event, and say what tells of its end."""
        if self.ordering_only:
            return None
        ident = self.ident()
        self.session.object_created(thing, ident, site)
        return Life(lambda: self.session.object_destroyed(thing, ident))

    def device_of(self, stream: int) -> int:
        """Return a stream's device."""
        return self._devices[stream - 1]

    def default(self, device: int) -> int:
        """Return a device's default stream."""
        return self._defaults[device % N_DEVICES]

    def current(self, device: int) -> int:
        """Return the current stream of a device; 0 where nobody knows."""
        return self.thread.streams.get(device, self.default(device))

    def is_default(self, stream: int) -> bool:
        """Tell whether a stream is a default one."""
        return stream <= N_DEVICES

    # -- order

    def assume_synchronized(self) -> None:
        """Code that nobody knows may have ordered everything: take it that it did."""
        for stream in range(1, self._n_streams + 1):
            self.session.sync_stream(stream, 0, explicit=False)
        self.synced()

    def wait_stream(self, waiter: Stream, awaited: Stream, node: ast.AST) -> None:
        """Make a stream wait for another."""
        if not (waiter.ident and awaited.ident):
            self.assume_synchronized()
            return
        device = waiter.device if waiter.looked_up else awaited.device
        looked_up = (waiter.looked_up, awaited.looked_up)
        self.session.wait_stream(waiter.ident, awaited.ident, self.site(node), looked_up, self.current(device))

    def join(self, waiter: int, awaited: int) -> None:
        """Make a stream wait for another, as torch does it by itself."""
        if waiter and awaited and waiter != awaited:
            self.session.wait_stream(waiter, awaited, 0, ("torch", ""))

    def record(self, event: Event, stream: Stream | None, node: ast.AST) -> None:
        """Record an event."""
        target = stream or Stream(self.current(self.thread.device), self.thread.device)
        if event.escaped or not target.ident:
            event.escaped = True
            return
        self.session.record(event.ident, target.ident, self.site(node), target.looked_up, self.current(target.device))

    def wait(self, event: Event, stream: Stream | None, via: str, node: ast.AST) -> None:
        """Make a stream wait for an event."""
        target = stream or Stream(self.current(self.thread.device), self.thread.device)
        if event.escaped or not target.ident:
            self.assume_synchronized()
            return
        current = self.current(target.device)
        self.session.wait(event.ident, target.ident, self.site(node), via, target.looked_up, current)

    # -- host

    def is_capturing(self) -> bool:
        """Tell whether the current stream is being captured."""
        current = self.current(self.thread.device)
        return bool(current and self.session.capturing(current))

    def sync_event(self, event: Event, node: ast.AST) -> None:
        """Make the host wait for an event."""
        if self._refused("Event.synchronize()", node):
            return
        if event.escaped:
            self.assume_synchronized()
        else:
            self.session.sync_event(event.ident, self.site(node))

    def sync_stream(self, stream: int, node: ast.AST, *, explicit: bool, call: str = "") -> None:
        """Make the host wait for a stream; `call`: what does it, if that is not the node."""
        if not stream:
            self.assume_synchronized()
        elif not self._refused("Stream.synchronize()" if explicit else call, node):
            self.session.sync_stream(stream, self.site(node), explicit=explicit)

    def sync_device(self, device: int, node: ast.AST) -> None:
        """Make the host wait for a device."""
        if not self._refused("torch.cuda.synchronize()", node):
            self.session.sync_device(device, self.site(node))
            self.synced()

    def _refused(self, call: str, node: ast.AST) -> bool:
        if not self.is_capturing():
            return False
        name = f"{ast.unparse(node.func)}()" if isinstance(node, ast.Call) else ast.unparse(node)
        self.session.sync_in_capture(call or name, self.site(node))
        return True

    def read_clock(self, node: ast.AST) -> ClockReading:
        """Read a host clock."""
        self.n_relevant += 1
        reading = ClockReading(self.ident())
        if not self.ordering_only:
            self.session.clock(reading.ident, self.site(node))
        return reading

    # -- memory

    def allocate(self, device: int | None, node: ast.AST, *, is_pinned: bool = False) -> Block:
        """Begin a block's life; `device` None is the host."""
        if self.ordering_only or (device is None and not is_pinned):
            return Block(0, device, is_pinned=is_pinned, died=_nothing)
        ident = self.ident()
        home = 0 if device is None else self.current(device)
        pool = UNKNOWN_POOL if device is not None and not home else 0
        named = self.session.allocate(ident, home or (0 if device is None else self.default(device)), _N_BYTES, pool,
                                      self.site(node))  # fmt: skip
        self.session.describe_allocation(ident, -1)
        self.named += named
        block = Block(ident, device, is_pinned=is_pinned, died=self._died)
        block.escaped = device is not None and not home
        return block

    def _died(self, ident: int) -> None:
        if ident:
            self.session.free(ident, self.site())

    def release(self, block: Block) -> None:
        """Give a block's memory back while tensors still name it."""
        if block.ident:
            self._died(block.ident)
        block.ident = 0
        block.escaped = True

    def _view(self, part: Part, *, is_write: bool) -> int:
        if part is None:
            start, stop = self._unknown_part() if is_write else (_READ_PART, _WRITTEN_PARTS)
        elif part == WHOLE:
            start, stop = 0, _N_BYTES
        else:
            start, stop = min(part[0], _ROWS) * _ROW, min(part[1], _ROWS) * _ROW
        known = self._views.get((start, stop))
        if known is None:
            known = self._views[start, stop] = self.session.view(start, (stop - start,), (1,), 1, "")
        return known

    def _unknown_part(self) -> tuple[int, int]:
        """Return bytes that nobody else writes: two parts that are not known may be different ones."""
        self._n_parts = (self._n_parts + 1) % _MOST_PARTS
        return _WRITTEN_PARTS + self._n_parts, _WRITTEN_PARTS + self._n_parts + 1

    def accesses(self, touched: Iterable[Access]) -> list[tuple[int, int, bool]]:
        """Return the accesses of the session that stand for those to tensors."""
        kept: dict[tuple[int, int], bool] = {}
        for tensor, is_write in touched:
            block = tensor.block
            if block.ident and not block.escaped:
                key = (block.ident, self._view(tensor.part, is_write=is_write))
                kept[key] = is_write or kept.get(key, False)
        return [(allocation, view, is_write) for (allocation, view), is_write in kept.items()]

    def launch(self, stream: int, operator: str, touched: Iterable[Access], node: ast.AST, other: int = -1) -> None:
        """Run an operator on a stream; `other` is a second device that it concerns."""
        touched = list(touched)
        if self.ordering_only:
            return
        if not stream:
            for tensor, is_write in touched:
                tensor.block.escaped |= is_write
            return
        self.watch(touched, node)
        if operator != "aten::copy_":
            self.computing.add(stream)
        site = self.site(node)
        context = self._context(stream, other, site)
        self.named += self.session.launch(stream, operator, self.accesses(touched), site, context)

    def _context(self, stream: int, other: int, site: int) -> int:
        thread = self.thread
        device = self.device_of(stream)
        self._look_at_inherited(stream, device, site)
        if thread.expected_stream:
            return -thread.expected_stream
        devices = {device, device if other < 0 else other}
        if not thread.contexts or any(self.device_of(entered) in devices for entered, _ in thread.contexts):
            return 0
        entered, where = thread.contexts[-1]
        return 0 if self.is_default(entered) else where * 4096 + entered

    def _look_at_inherited(self, stream: int, device: int, site: int) -> None:
        thread = self.thread
        inherited, thread.inherited = thread.inherited, None
        if inherited is None or thread.set_explicitly:
            return
        expected = inherited.streams.get(device, self.default(device))
        if inherited.device != device == 0:
            expected = inherited.streams.get(inherited.device, self.default(inherited.device))
        if expected and expected != stream:
            thread.expected_stream = expected
            self.session.lost_context(stream, expected, site)

    def touch_host(self, operator: str, touched: Iterable[Access], node: ast.AST, *, escape: bool = False) -> None:
        """Let the host read or write tensors in its own memory."""
        if self.ordering_only:
            return
        touched = list(touched)
        self.watch(touched, node)
        accesses = self.accesses(touched)
        if accesses:
            self.named += self.session.host_access(operator, accesses, self.site(node), escape=escape)

    def take_named(self) -> list[int]:
        """Return the allocations that findings since the last call are about."""
        named, self.named = self.named, []
        return named


def _nothing(ident: int) -> None:
    del ident


def _unwatched(touched: list[Access], node: ast.AST) -> None:
    del touched, node


def _nothing_to_do() -> None:
    pass
