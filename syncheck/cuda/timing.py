"""Measures operators with an event before and after each, read when both are complete."""

import sys
from collections import deque
from itertools import count
from typing import Any, NamedTuple

import torch

from syncheck.cuda import devices
from syncheck.cuda.captures import Captures
from syncheck.cuda.dispatch_plan import DispatchPlan
from syncheck.cuda.driver_events import DriverEvents
from syncheck.cuda.reporter import Reporter
from syncheck.cuda.streams import Streams
from syncheck.hb.ids import StreamId

_MAX_PENDING = 4096
"""The number of measured but unread operators that triggers a read of the complete ones."""


class Interval(NamedTuple):
    """A measurement in progress; `start` and `end` are events."""

    number: int
    device: int
    stream: StreamId
    handle: int
    start: int
    end: int


class _Base(NamedTuple):
    """An event with its time on the common clock, in nanoseconds since the start."""

    event: int
    time: int


class Timing:
    """Measures operators.

    Attributes:
        most: the most operators to measure; later ones have no overhead beyond the check's.
        is_over: this many operators have been measured.

    Args:
        reporter: gives access to the monitor.
        streams: gives the ids of streams.
        captures: during a capture nothing is measured, because the events would become part of the graph.
        events: creates and reads the events.
        most: see above.
    """

    def __init__(
        self, reporter: Reporter, streams: Streams, captures: Captures, events: DriverEvents, most: int = sys.maxsize
    ) -> None:
        self._reporter = reporter
        self._streams = streams
        self._captures = captures
        self._events = events
        self._numbers = count(1)
        self._free: dict[int, list[int]] = {}
        self._bases: dict[int, _Base] = {}
        self._pending: deque[Interval] = deque()
        self._began = 0
        self._n_timed = 0
        self.most = most
        self.start_program()

    @property
    def devices(self) -> list[int]:
        """The devices on which operators were measured."""
        return list(self._bases)

    def start_program(self) -> None:
        """Prepare for another program."""
        self.is_over = False
        self._n_timed = 0
        self._reporter.call_buffer.condenses = False  # every operator counts

    # -- around an operator

    def begin(self, dispatch: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Interval | None:
        """Record an event before an operator; return None if it is not to be measured."""
        if not isinstance(dispatch, DispatchPlan) or not dispatch.is_seen or self._captures:
            return None
        device = device_of(dispatch.plan.base, args, kwargs)
        if device < 0 or not self._reporter.is_checking:
            return None
        self._add_base(device)
        stream, handle = self._streams.current(device), devices.raw_stream(device)
        start, end = self._event(device), self._event(device)
        if not start or not end or not self._events.record(start, device, handle):
            return None
        return Interval(next(self._numbers), device, stream, handle, start, end)

    def end(self, interval: Interval, operator: str) -> None:
        """Record an event after an operator that has just been reported."""
        if self._captures or not self._events.record(interval.end, interval.device, interval.handle):
            return
        self._reporter.call_buffer.add(("timed", interval.number, interval.stream, operator))
        self._pending.append(interval)
        self._n_timed += 1
        if self._n_timed >= self.most and not self.is_over:
            self._stop()
        elif len(self._pending) >= _MAX_PENDING:
            self.read()

    def _stop(self) -> None:
        """Stop measuring; from now on, the overhead is that of a check without times."""
        self.is_over = True
        self._reporter.call_buffer.add(("untimed",))
        self._reporter.flush_calls()  # the calls added so far must not be condensed
        self._reporter.call_buffer.condenses = True

    def _event(self, device: int) -> int:
        free = self._free.setdefault(device, [])
        return free.pop() if free else self._events.make(device)

    def _add_base(self, device: int) -> None:
        """Determine when an event of a device completes on the host's clock, which all devices share."""
        if device in self._bases:
            return
        event = self._events.make(device)
        self._events.record(event, device, 0)
        now = self._events.wait(event)
        self._began = self._began or now
        self._bases[device] = _Base(event, now - self._began)

    # -- reading

    def read(self) -> None:
        """Read the complete measurements."""
        self._read(until_complete=False)

    def finish(self) -> None:
        """Read all remaining measurements at the end of the program."""
        self._read(until_complete=True)

    def _read(self, *, until_complete: bool) -> None:
        found: list[tuple[int, int, int]] = []
        pending = self._pending
        while pending:
            interval = pending.popleft()
            if until_complete:
                self._events.wait(interval.end)
            elif not self._events.is_complete(interval.end):
                pending.appendleft(interval)
                break
            self._note(interval, found)
        if found:
            self._reporter.call_buffer.add(("times", tuple(found)))

    def _note(self, interval: Interval, found: list[tuple[int, int, int]]) -> None:
        base = self._bases[interval.device]
        since, taken = (
            self._events.nanoseconds(base.event, interval.start),
            self._events.nanoseconds(interval.start, interval.end),
        )
        free = self._free[interval.device]
        free.append(interval.end)
        if since is None or taken is None:
            free.append(interval.start)
            return
        found.append((interval.number, base.time + since, taken))
        # measure the next time from here: the time between distant events has a low resolution
        self._bases[interval.device] = _Base(interval.start, base.time + since)
        free.append(base.event)


def device_of(base: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """Return the device whose current stream runs an operator; a copy between devices runs on the source's."""
    if base == "copy_" and args[1].is_cuda:
        return int(args[1].get_device())
    for argument in args:
        for value in argument if isinstance(argument, (list, tuple)) else (argument,):
            if isinstance(value, torch.Tensor) and value.is_cuda:
                return int(value.get_device())
    wanted: Any = kwargs.get("device")
    if getattr(wanted, "type", "") == "cuda":
        return int(wanted.index) if wanted.index is not None else devices.current_device()
    return -1
