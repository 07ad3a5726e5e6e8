"""The calls that a capture backend makes: plain integers and strings, so that a trace is a recording of them."""

from collections.abc import Sequence
from typing import Protocol

from syncheck.findings import Place
from syncheck.rules.model import Rule

Ids = tuple[int, ...]


class Sites(Protocol):
    """Turns call-site ids into places."""

    def place(self, site: int) -> Place:
        """Return the place of a call site; of site 0, an unknown place."""
        ...

    def bound(self, site: int) -> str:
        """Return the name that the program binds what is made at a call site to, or deletes there; "" if none."""
        ...

    def ignored(self, site: int, rule: Rule) -> bool:
        """Tell whether the program ignores a rule at a call site."""
        ...

    def ignored_codes(self, site: int) -> list[str]:
        """Return the codes of all rules that the program ignores at a call site."""
        ...


class Monitor(Protocol):
    """Receives what a program does, in host order.

    All ids are given by the caller and never reused, except an event's after `drop_event`. `site` is a call site of
    the backend's `Sites`, `stream` 0 is the host. Calls that can complete a finding return the allocations that it
    names, so that the caller can look up their variables while the frames are alive.
    """

    def stream(self, stream: int, device: int, handle: int, site: int, *, legacy: bool, blocking: bool) -> None:
        """A stream appeared; ids count from 1 in this order."""

    def name(self, kind: str, ident: int, text: str) -> None:
        """The program's own name for a "stream", "event", "allocation" or "graph"."""

    def view(self, start: int, sizes: Ids, strides: Ids, item_size: int, dtype: str) -> int:
        """Return the id of a view, equal for views of equal bytes; `start` in bytes, sizes and strides in elements."""
        ...

    def describe_allocation(self, allocation: int, view: int) -> None:
        """Describe an allocation by this view in findings: what a launch was given may only tell how many bytes."""

    def object_created(self, thing: str, ident: int, site: int) -> None:
        """A "stream" or "timing event" object was made by the program."""

    def object_destroyed(self, thing: str, ident: int) -> None:
        """An object announced by `made` is gone."""

    def allocate(self, allocation: int, home: int, n_bytes: int, pool: int, site: int) -> Ids:
        """An allocation's life begins on stream `home` (0: host memory)."""
        ...

    def free(self, allocation: int, site: int) -> Ids:
        """An allocation's life ends."""
        ...

    def record_stream(self, allocation: int, view: int, stream: int, site: int) -> None:
        """`Tensor.record_stream`."""

    def launch(
        self, stream: int, operator: str, accesses: Sequence[tuple[int, int, bool]], site: int, context: int = 0
    ) -> Ids:
        """An operator runs on a stream.

        Args:
            stream: the stream it runs on.
            operator: its name, as "aten::add".
            accesses: what it reads and writes: (allocation, view, is_write).
            site: the call.
            context: `site * 4096 + stream` of an entered stream context that does not apply to it; `-stream` in a
                thread that lost this stream of its starter; else 0.
        """
        ...

    def launches_elided(self, stream: int, count: int, site: int) -> None:
        """Operators ran on a stream, the last at `site`, whose accesses nothing can depend on any more."""

    def collective(self, stream: int, operator: str, site: int) -> None:
        """The launch before this call, on a stream of its own, is a collective that the program has a handle of."""

    def host_access(
        self, operator: str, accesses: Sequence[tuple[int, int, bool]], site: int, *, escape: bool = False
    ) -> Ids:
        """The host touches memory; `escape`: it only got hold of it and may read it later, unseen."""
        ...

    def pageable_copy(self, allocation: int, view: int, site: int) -> Ids:
        """A non_blocking copy from pageable host memory."""
        ...

    def event(self, event: int, site: int, *, timing: bool) -> None:
        """An event object was made."""

    def drop_event(self, event: int) -> None:
        """An event object is gone."""

    def record(self, event: int, stream: int, site: int, looked_up: str = "", current: int = 0) -> None:
        """An event is recorded on a stream; `looked_up` and `current` as in `wait`."""

    def wait(self, event: int, stream: int, site: int, via: str, looked_up: str = "", current: int = 0) -> None:
        """A stream waits for an event.

        Args:
            event: an event announced by `event`.
            stream: the stream whose later work waits.
            site: the call.
            via: "event" for `Event.wait`, "stream" for `Stream.wait_event`, "" for a wait that torch makes by itself.
            looked_up: "current_stream" or "default_stream" where the waiting stream came from such a call.
            current: the stream that is current at the call, on the named stream's device; 0 if nobody looked.
        """

    def wait_stream(
        self, stream: int, other: int, site: int, looked_up: tuple[str, str] = ("", ""), current: int = 0
    ) -> None:
        """A stream waits for another; `looked_up` for both as in `wait`; ("torch", "") where torch does it itself."""

    def sync_event(self, event: int, site: int) -> None:
        """The host waits for an event, or a query said that it is complete."""

    def sync_stream(self, stream: int, site: int, *, explicit: bool) -> None:
        """The host waits for a stream: by a call of the program (`explicit`), or inside an operator."""

    def sync_device(self, device: int, site: int) -> None:
        """The host waits for a device."""

    def is_pending(self, kind: str, ident: int) -> bool:
        """Tell whether the host does not know an "event" or "stream" to be complete."""
        ...

    def elapsed(self, start: int, end: int, site: int) -> None:
        """`start.elapsed_time(end)`."""

    def clock(self, reading: int, site: int) -> None:
        """The program read a host clock."""

    def clock_difference(self, earlier: int, later: int) -> None:
        """The program subtracted two readings."""

    def lost_context(self, actual: int, expected: int, site: int) -> None:
        """A thread's first work is on stream `actual`: its starter's current stream `expected` does not carry over."""

    def capture_begin(self, graph: int, stream: int, site: int) -> None:
        """A graph capture begins on a stream."""

    def capture_end(self, graph: int) -> Ids:
        """The capture ends; returns the streams forked inside it and not joined."""
        ...

    def capturing(self, stream: int) -> bool:
        """Tell whether the stream is being captured."""
        ...

    def sync_in_capture(self, call: str, site: int) -> None:
        """A host synchronization was asked for during a capture."""

    def replay(self, graph: int, stream: int, site: int) -> Ids:
        """A captured graph runs on a stream."""
        ...

    def ended(self) -> None:
        """The program has run to its end, without an error."""

    def incomplete(self, reason: str) -> None:
        """Something could not be seen."""
