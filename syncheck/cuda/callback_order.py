"""Callbacks that occur while an operator runs, kept until the operator's place among them is known."""

from enum import Enum, auto
from types import FrameType
from typing import NamedTuple

from syncheck.hb.clock import HOST
from syncheck.hb.ids import EventId, StreamId


class Kind(Enum):
    """Kinds of callbacks."""

    RECORD = auto()
    WAIT = auto()
    SYNC_STREAM = auto()
    SYNC_EVENT = auto()
    SYNC_DEVICE = auto()


SYNCS = {Kind.SYNC_STREAM, Kind.SYNC_EVENT, Kind.SYNC_DEVICE}


class Callback(NamedTuple):
    """A callback that occurred while an operator ran.

    Attributes:
        kind: the kind of call that it reports.
        event: the event's id; 0 if there is none.
        stream: the stream's id; for SYNC_DEVICE, the device.
    """

    kind: Kind
    event: EventId
    stream: StreamId


class PendingCallbacks:
    """The callbacks of operators that have not been logged yet.

    Attributes:
        by_frame: id of an operator's frame -> its callbacks.
        count: total number of callbacks kept; while there are any, events must not be dropped.
    """

    def __init__(self) -> None:
        self.by_frame: dict[int, list[Callback]] = {}
        self.count = 0

    def keep(self, frame: FrameType, callback: Callback) -> None:
        """Keep a callback for the operator that runs in a frame."""
        self.count += 1
        self.by_frame.setdefault(id(frame), []).append(callback)

    def forget(self, frame: FrameType) -> None:
        """Drop the callbacks of an operator that will not be logged."""
        self.count -= len(self.by_frame.pop(id(frame), ()))


def working_stream(inner: list[Callback], current: StreamId, *, waits_first: bool = False) -> StreamId:
    """Return the stream that an operator worked on, inferred from the callbacks that occurred while it ran.

    An operator that works on a stream of its own makes that stream wait for the current stream, and records an event
    on it afterwards.

    Args:
        inner: the callbacks, in order.
        current: the current stream.
        waits_first: the operator's own stream always waits for the current stream first, so that a stream with a
            record but no wait is not it.

    Source:
        torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp: `syncStream`, then the end event, then those of the future.
    """
    recorded: set[StreamId] = set()
    last = HOST
    if (
        inner
        and inner[-1].kind is Kind.WAIT
        and any(e.kind is Kind.RECORD and e.event == inner[-1].event for e in inner)
    ):
        return inner[-1].stream  # one of several operators that are launched together and end later
    for entry in reversed(inner):
        if entry.kind is Kind.RECORD:
            recorded.add(entry.stream)
            last = last or entry.stream
        elif entry.kind is Kind.WAIT and entry.stream in recorded:
            return entry.stream
    return current if waits_first else last or current


def work_index(inner: list[Callback], stream: StreamId) -> int:
    """Return the index of the callback before which an operator's work on its stream belongs.

    The work comes after the initial waits, before the first record that follows them, because `Work.wait` waits for
    that record, and before any wait of the host.
    """
    position = len(inner)
    for index in range(len(inner) - 1, -1, -1):
        entry = inner[index]
        if entry.kind is Kind.WAIT and entry.stream == stream:
            return position
        if entry.kind in SYNCS or (entry.kind is Kind.RECORD and entry.stream == stream):
            position = index
    return position
