"""Interface between backends and the sanitizer: calls with plain integers and strings, which a trace records."""

import ast
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from syncheck.findings import Frame, Location
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
    """The program line of a call site or of one of its callers.

    Attributes:
        path: the file, as in `Frame.path`.
        number: line number, from 1.
        column: column of the call, from 1; 0 if unknown.
        function: the function, as in `Frame.function`.
        scopes: the names in the file; None if it cannot be read.
        is_user_code: whether it is in a user file, rather than in an installed package.
    """

    path: str
    number: int
    column: int = 0
    function: str = ""
    scopes: Scopes | None = None
    is_user_code: bool = True

    @property
    def statement(self) -> ast.stmt | None:
        """The innermost statement that contains the line; None if unknown."""
        return self.scopes.statement(self.number) if self.scopes is not None else None

    @classmethod
    def of_library(cls, frame: Frame) -> "SourceLine":
        """Return the line of a frame outside user code, where nothing can be inserted."""
        return cls(frame.path, frame.line, frame.column, frame.function, is_user_code=False)


class Sites(Protocol):
    """Converts call-site ids to locations."""

    def lines_of(self, site: SiteId) -> tuple[SourceLine, ...]:
        """Return the innermost line of a call site in user files, then those of its callers in user files.

        If the stack contains no user file, return the innermost line; for site 0, an unknown line.
        """
        ...

    def location(self, site: SiteId) -> Location:
        """Return the location of a call site; for site 0, an unknown location."""
        ...

    def bound(self, site: SiteId) -> str:
        """Return the name that a call site binds its result to, or deletes; "" if none."""
        ...

    def ignored(self, site: SiteId, rule: Rule) -> bool:
        """Return whether the program ignores a rule at a call site."""
        ...

    def ignored_codes(self, site: SiteId) -> list[str]:
        """Return the codes of all rules that the program ignores at a call site."""
        ...


class Monitor(Protocol):
    """Receives the actions of a program in host order, with its threads interleaved.

    The caller assigns all ids and never reuses them, except an event's id after `drop_event`. `site` is a call site of
    the backend's `Sites`; `stream` 0 is the host.
    """

    def device_type(self, device_type: str) -> None:
        """Set the device type, if it is not CUDA: the name of the torch module, such as "xpu"."""

    def stream(self, stream: StreamId, device: int, handle: int, site: SiteId, *, legacy: bool, blocking: bool) -> None:
        """Announce a stream; ids count from 1 in the order of these calls."""

    def host(self, host: HostId, name: str) -> None:
        """Switch to the thread of the program that makes the following calls; initially, this is the main thread.

        A new thread is ordered after nothing: it has to acquire what its starter released. Ids count from 2. Waits made
        by EVERY_THREAD count for all threads.
        """

    def release(self, sync: SyncId) -> None:
        """Release an object: the thread's past actions happen before those of threads that later acquire it."""

    def acquire(self, sync: SyncId) -> None:
        """Acquire an object: all actions released to it so far happen before the thread's future actions."""

    def acquire_all(self) -> None:
        """Order the thread after all past actions of all threads, because it may have synchronized with any of them."""

    def forget_sync(self, sync: SyncId) -> None:
        """Forget an object that orders threads, because it was destroyed."""

    def name(self, kind: NamedKind, ident: int, text: str) -> None:
        """Set the program's own name for a stream, an event, an allocation or a graph."""

    def name_at(self, kind: NamedKind, ident: int, text: str, path: str, line: int) -> None:
        """Set the name of a stream, an event or an allocation on a line; `path` is as in `Frame.path`."""

    def name_view(self, allocation: AllocationId, view: ViewId, text: str) -> None:
        """Set the program's name for a part of an allocation; "" if only other parts have names."""

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
        """Return the id of a view, equal for views of equal bytes; `start` is in bytes, sizes and strides in elements.

        `is_partial`: only an unknown part of it is accessed, such as the rows selected by an index on the GPU.
        """
        ...

    def describe_allocation(self, allocation: AllocationId, view: ViewId) -> None:
        """Describe an allocation by this view in findings, because launches may specify only its number of bytes."""

    def object_created(self, kind: ObjectKind, ident: int, site: SiteId) -> None:
        """Report that the program created an object."""

    def stream_object(self, ident: int, stream: StreamId, site: SiteId) -> None:
        """Assign the stream object last announced by `object_created` to this stream of torch's pool."""

    def object_destroyed(self, kind: ObjectKind, ident: int) -> None:
        """Report that an object announced by `object_created` was destroyed."""

    def allocate(self, allocation: AllocationId, home: StreamId, n_bytes: int, pool: int, site: SiteId) -> None:
        """Report an allocation on stream `home` (0: host memory)."""

    def free(self, allocation: AllocationId, site: SiteId) -> None:
        """Report that an allocation was freed."""

    def record_stream(self, allocation: AllocationId, view: ViewId, stream: StreamId, site: SiteId) -> None:
        """Report a call of `Tensor.record_stream`."""

    def launch(
        self, stream: StreamId, operator: str, accesses: Accesses, site: SiteId, context: Context | None = None
    ) -> None:
        """Report that an operator was launched on a stream.

        Args:
            stream: the stream.
            operator: its name, such as "aten::add".
            accesses: its reads and writes.
            site: the call.
            context: an entered stream context that does not apply to it, or the stream that its thread lost.
        """

    def timed(self, interval: int, stream: StreamId, operator: str) -> None:
        """Assign a time interval to the latest launch of an operator on a stream; `times` reports it later."""

    def times(self, intervals: Sequence[tuple[int, int, int]]) -> None:
        """Report measured intervals: (number, begin, duration), in nanoseconds from the start."""

    def untimed(self) -> None:
        """Report that from here on operators are not measured, and some are elided: a timeline ends here."""

    def launches_elided(self, stream: StreamId, count: int, site: SiteId) -> None:
        """Report operators on a stream, the last at `site`, whose accesses can no longer affect any finding."""

    def collective(self, stream: StreamId, operator: str, site: SiteId) -> None:
        """Report that the preceding launch, on its own stream, is a collective whose handle the program holds."""

    def host_access(self, operator: str, accesses: Accesses, site: SiteId, *, escape: bool = False) -> None:
        """Report a host access; `escape`: the host only obtained a pointer and may read the memory later, unseen."""

    def pageable_copy(self, allocation: AllocationId, view: ViewId, site: SiteId) -> None:
        """Report a non_blocking copy from pageable host memory."""

    def event(self, event: EventId, site: SiteId, *, timing: bool = False, external: bool = False) -> None:
        """Report that an event was created; `external`: captures include its records and waits in the graph."""

    def drop_event(self, event: EventId) -> None:
        """Report that an event object was destroyed."""

    def record(
        self,
        event: EventId,
        stream: StreamId,
        site: SiteId,
        origin: StreamOrigin = StreamOrigin.BY_NAME,
        current: StreamId = HOST,
    ) -> None:
        """Report that an event is recorded on a stream; `origin` and `current` are as in `wait`."""

    def wait(
        self,
        event: EventId,
        stream: StreamId,
        site: SiteId,
        via: WaitCall,
        origin: StreamOrigin = StreamOrigin.BY_NAME,
        current: StreamId = HOST,
    ) -> None:
        """Report that a stream waits for an event.

        Args:
            event: an event announced by `event`.
            stream: the stream whose later work waits.
            site: the call.
            via: the kind of call that makes it wait.
            origin: how the program obtained the waiting stream.
            current: the stream that is current at the call, on the named stream's device; 0 if unknown.
        """

    def wait_stream(
        self,
        stream: StreamId,
        other: StreamId,
        site: SiteId,
        origins: tuple[StreamOrigin, StreamOrigin] = _BY_NAME,
        current: StreamId = HOST,
    ) -> None:
        """Report that a stream waits for another; `origins` are those of both, BY_TORCH if torch makes the call."""

    def sync_event(self, event: EventId, site: SiteId) -> None:
        """Report that the host waits for an event, or that a query found it complete."""

    def sync_stream(self, stream: StreamId, site: SiteId, *, explicit: bool) -> None:
        """Report that the host waits for a stream, by a call of the program (`explicit`) or inside an operator."""

    def sync_device(self, device: int, site: SiteId) -> None:
        """Report that the host waits for a device."""

    def empty_cache(self, site: SiteId) -> None:
        """Report that the program returns the allocator's free memory to the driver."""

    def is_pending(self, kind: NamedKind, ident: int) -> bool:
        """Return whether an event or a stream may still be incomplete, as far as the host knows."""
        ...

    def holds_used_memory(self) -> bool:
        """Return whether uses of new memory may lead to a finding, or name the tensor of one.

        They may if a stream other than its own may still be using some freed memory.
        """
        ...

    def is_ordered_after_all(self, stream: StreamId, allocation: AllocationId) -> bool:
        """Return whether a stream's next work is ordered after all accesses to an allocation by other streams."""
        ...

    def elapsed(self, start: EventId, end: EventId, site: SiteId) -> None:
        """Report a call of `start.elapsed_time(end)`."""

    def clock(self, reading: ReadingId, site: SiteId) -> None:
        """Report that the program read a host clock."""

    def clock_difference(self, earlier: ReadingId, later: ReadingId) -> None:
        """Report that the program subtracted two clock readings."""

    def lost_context(self, actual: StreamId, expected: StreamId, site: SiteId) -> None:
        """Report that a thread's first work is on `actual`, not on its starter's current stream `expected`."""

    def capture_begin(self, graph: GraphId, stream: StreamId, site: SiteId, pool: int = 0) -> None:
        """Report that a graph capture begins on a stream; `pool`: its memory pool, 0 if it is not shared."""

    def capture_end(self, graph: GraphId) -> tuple[StreamId, ...]:
        """End the capture; return the streams forked inside it that were not joined."""
        ...

    def capturing(self, stream: StreamId) -> bool:
        """Return whether the stream is being captured."""
        ...

    def sync_in_capture(self, call: str, site: SiteId) -> None:
        """Report a host synchronization during a capture."""

    def replay(self, graph: GraphId, stream: StreamId, site: SiteId) -> None:
        """Report that a captured graph is launched on a stream."""

    def results(self, graph: GraphId) -> frozenset[AllocationId]:
        """Return the memory that was allocated in the capture of a graph and that the program has not freed."""
        ...

    def result_kept(self, graph: GraphId, allocation: AllocationId, site: SiteId) -> None:
        """Report that the program collects a graph's results, which the replay at `site` overwrites."""

    def ended(self) -> None:
        """Report that the program ran to its end without an error."""

    def incomplete(self, reason: str) -> None:
        """Report that something could not be observed."""
