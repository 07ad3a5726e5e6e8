"""The calls that a backend makes: plain integers and strings, so that a trace is a recording of them."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from syncheck.findings import Frame, Place
from syncheck.hb.clock import HOST
from syncheck.hb.ids import (
    BY_TORCH,
    Accesses,
    AllocationId,
    Context,
    EventId,
    GraphId,
    HostId,
    NamedKind,
    ObjectKind,
    ReadingId,
    SiteId,
    StreamId,
    StreamOrigin,
    SyncId,
    ViewId,
    WaitCall,
)
from syncheck.rules.model import Rule
from syncheck.source.scopes import Scopes

__all__ = ["BY_TORCH", "Monitor", "Sites"]

_BY_NAME = (StreamOrigin.BY_NAME, StreamOrigin.BY_NAME)


class SourceLine(NamedTuple):
    """A line of the program at which a call site, or a caller of it, stands.

    Attributes:
        path: the file, as in `Frame.path`.
        number: of the line, from 1.
        column: of the call, from 1; 0 where unknown.
        function: the function, as in `Frame.function`.
        scopes: the names of the file; None where it cannot be read.
        is_users: it is in a file of the user's, and not in an installed package.
    """

    path: str
    number: int
    column: int = 0
    function: str = ""
    scopes: Scopes | None = None
    is_users: bool = True

    @classmethod
    def of_library(cls, frame: Frame) -> "SourceLine":
        """Return the line of a frame that is not the user's: nothing is to be inserted there."""
        return cls(frame.path, frame.line, frame.column, frame.function, is_users=False)


class Sites(Protocol):
    """Turns call-site ids into places."""

    def lines_of(self, site: SiteId) -> tuple[SourceLine, ...]:
        """Return the line of a call site in the user's files, then those of its callers there.

        Where no file of its stack is the user's, that is the innermost line of all; an unknown one for site 0.
        """
        ...

    def place(self, site: SiteId) -> Place:
        """Return the place of a call site; of site 0, an unknown place."""
        ...

    def bound(self, site: SiteId) -> str:
        """Return the name that the program binds what is made at a call site to, or deletes there; "" if none."""
        ...

    def ignored(self, site: SiteId, rule: Rule) -> bool:
        """Return whether the program ignores a rule at a call site."""
        ...

    def ignored_codes(self, site: SiteId) -> list[str]:
        """Return the codes of all rules that the program ignores at a call site."""
        ...


class Monitor(Protocol):
    """Receives what a program does, in host order, its threads one after the other.

    All ids are given by the caller and never reused, except an event's after `drop_event`. `site` is a call site of
    the backend's `Sites`, `stream` 0 is the host.
    """

    def device_type(self, device_type: str) -> None:
        """The GPUs are of another type than CUDA's: that of the module of torch with this name, such as "xpu"."""

    def stream(self, stream: StreamId, device: int, handle: int, site: SiteId, *, legacy: bool, blocking: bool) -> None:
        """A stream appeared; ids count from 1 in this order."""

    def host(self, host: HostId, name: str) -> None:
        """What comes is done by a thread of the program, at first by the main one.

        A thread that is new knows nothing: what its starter released is for it to acquire. Ids count from 2. What
        EVERY_THREAD waits for, all threads have waited for.
        """

    def release(self, sync: SyncId) -> None:
        """The thread does what lets others go on: what it did so far is before whoever acquires the same object."""

    def acquire(self, sync: SyncId) -> None:
        """The thread goes on because others let it: what was released to the object so far is before what it does."""

    def acquire_all(self) -> None:
        """The thread may have got word of any other: all that was done so far is before what it does."""

    def forget_sync(self, sync: SyncId) -> None:
        """An object that orders threads is gone."""

    def name(self, kind: NamedKind, ident: int, text: str) -> None:
        """The program's own name for a stream, an event, an allocation or a graph."""

    def name_at(self, kind: NamedKind, ident: int, text: str, path: str, line: int) -> None:
        """What a stream, an event or an allocation is called at a line; `path` as in `Frame.path`."""

    def name_view(self, allocation: AllocationId, view: ViewId, text: str) -> None:
        """The program's own name for a part of an allocation; "" if it has none for that, but for other parts."""

    def view(
        self,
        start: int,
        sizes: tuple[int, ...],
        strides: tuple[int, ...],
        item_size: int,
        dtype: str,
        *,
        is_partial: bool = False,
    ) -> ViewId:
        """Return the id of a view, equal for views of equal bytes; `start` in bytes, sizes and strides in elements.

        `is_partial`: only some of it is touched, and it is not known which: rows that an index on the GPU names.
        """
        ...

    def describe_allocation(self, allocation: AllocationId, view: ViewId) -> None:
        """Describe an allocation by this view in findings: what a launch was given may only say how many bytes."""

    def object_created(self, kind: ObjectKind, ident: int, site: SiteId) -> None:
        """The program made an object."""

    def stream_object(self, ident: int, stream: StreamId, site: SiteId) -> None:
        """The stream object announced last by `object_created` stands for this stream of torch's pool."""

    def object_destroyed(self, kind: ObjectKind, ident: int) -> None:
        """An object announced by `object_created` is gone."""

    def allocate(self, allocation: AllocationId, home: StreamId, n_bytes: int, pool: int, site: SiteId) -> None:
        """An allocation's life begins on stream `home` (0: host memory)."""

    def free(self, allocation: AllocationId, site: SiteId) -> None:
        """An allocation's life ends."""

    def record_stream(self, allocation: AllocationId, view: ViewId, stream: StreamId, site: SiteId) -> None:
        """`Tensor.record_stream`."""

    def launch(
        self, stream: StreamId, operator: str, accesses: Accesses, site: SiteId, context: Context | None = None
    ) -> None:
        """An operator runs on a stream.

        Args:
            stream: the stream it runs on.
            operator: its name, as "aten::add".
            accesses: what it reads and writes.
            site: the call.
            context: an entered stream context that does not apply to it, or the stream that its thread lost.
        """

    def timed(self, interval: int, stream: StreamId, operator: str) -> None:
        """The latest launch of an operator on a stream took an interval, whose times `times` says later."""

    def times(self, intervals: Sequence[tuple[int, int, int]]) -> None:
        """Some intervals were measured: number, when it began, how long it took; nanoseconds from the start."""

    def untimed(self) -> None:
        """From here on no operator is measured, and not all are passed on one by one: a timeline ends here."""

    def launches_elided(self, stream: StreamId, count: int, site: SiteId) -> None:
        """Operators ran on a stream, the last at `site`, whose accesses nothing can depend on any more."""

    def collective(self, stream: StreamId, operator: str, site: SiteId) -> None:
        """The launch before this call, on a stream of its own, is a collective that the program has a handle of."""

    def host_access(self, operator: str, accesses: Accesses, site: SiteId, *, escape: bool = False) -> None:
        """The host touches memory; `escape`: it only got hold of it and may read it later, unseen."""

    def pageable_copy(self, allocation: AllocationId, view: ViewId, site: SiteId) -> None:
        """A non_blocking copy from pageable host memory."""

    def event(self, event: EventId, site: SiteId, *, timing: bool, external: bool = False) -> None:
        """An event object was made; `external`: a capture puts its records and waits into the graph."""

    def drop_event(self, event: EventId) -> None:
        """An event object is gone."""

    def record(
        self,
        event: EventId,
        stream: StreamId,
        site: SiteId,
        origin: StreamOrigin = StreamOrigin.BY_NAME,
        current: StreamId = HOST,
    ) -> None:
        """An event is recorded on a stream; `origin` and `current` as in `wait`."""

    def wait(
        self,
        event: EventId,
        stream: StreamId,
        site: SiteId,
        via: WaitCall,
        origin: StreamOrigin = StreamOrigin.BY_NAME,
        current: StreamId = HOST,
    ) -> None:
        """A stream waits for an event.

        Args:
            event: an event announced by `event`.
            stream: the stream whose later work waits.
            site: the call.
            via: which call makes it wait.
            origin: how the program got the waiting stream.
            current: the stream that is current at the call, on the named stream's device; 0 if that is not known.
        """

    def wait_stream(
        self,
        stream: StreamId,
        other: StreamId,
        site: SiteId,
        origins: tuple[StreamOrigin, StreamOrigin] = _BY_NAME,
        current: StreamId = HOST,
    ) -> None:
        """A stream waits for another; `origins` has the origin of each, BY_TORCH if torch itself makes the call."""

    def sync_event(self, event: EventId, site: SiteId) -> None:
        """The host waits for an event, or a query said that it is complete."""

    def sync_stream(self, stream: StreamId, site: SiteId, *, explicit: bool) -> None:
        """The host waits for a stream: by a call of the program (`explicit`), or inside an operator."""

    def sync_device(self, device: int, site: SiteId) -> None:
        """The host waits for a device."""

    def empty_cache(self, site: SiteId) -> None:
        """The program gives the allocator's free memory back to the driver."""

    def is_pending(self, kind: NamedKind, ident: int) -> bool:
        """Return whether the host does not know an event or a stream to be complete."""
        ...

    def holds_used_memory(self) -> bool:
        """Return whether memory was freed that a stream other than its own may still be using."""
        ...

    def is_ordered_after_all(self, stream: StreamId, allocation: AllocationId) -> bool:
        """Return whether what a stream does next comes after all that other streams have done with memory."""
        ...

    def elapsed(self, start: EventId, end: EventId, site: SiteId) -> None:
        """`start.elapsed_time(end)`."""

    def clock(self, reading: ReadingId, site: SiteId) -> None:
        """The program read a host clock."""

    def clock_difference(self, earlier: ReadingId, later: ReadingId) -> None:
        """The program subtracted two readings."""

    def lost_context(self, actual: StreamId, expected: StreamId, site: SiteId) -> None:
        """A thread's first work is on stream `actual`: its starter's current stream `expected` does not carry over."""

    def capture_begin(self, graph: GraphId, stream: StreamId, site: SiteId) -> None:
        """A graph capture begins on a stream."""

    def capture_end(self, graph: GraphId) -> tuple[StreamId, ...]:
        """The capture ends; returns the streams forked inside it and not joined."""
        ...

    def capturing(self, stream: StreamId) -> bool:
        """Return whether the stream is being captured."""
        ...

    def sync_in_capture(self, call: str, site: SiteId) -> None:
        """A host synchronization was asked for during a capture."""

    def replay(self, graph: GraphId, stream: StreamId, site: SiteId) -> None:
        """A captured graph runs on a stream."""

    def ended(self) -> None:
        """The program has run to its end, without an error."""

    def incomplete(self, reason: str) -> None:
        """Something could not be seen."""
