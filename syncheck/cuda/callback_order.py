"""Callbacks that come while an operator runs: they are kept until it is known where among them the operator belongs."""

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
    """A callback that came while an operator ran.

    Attributes:
        kind: what it reports.
        event: the event's id, 0 if it is about none.
        stream: the stream's id; of SYNC_DEVICE, the device.
    """

    kind: Kind
    event: EventId
    stream: StreamId


class KeptCallbacks:
    """The callbacks that came while operators ran that are not logged yet.

    Attributes:
        by_frame: id of an operator's frame -> its callbacks.
        count: how many are kept, in all: their events must not be forgotten yet.
    """

    def __init__(self) -> None:
        self.by_frame: dict[int, list[Callback]] = {}
        self.count = 0

    def keep(self, frame: FrameType, callback: Callback) -> None:
        """Keep a callback for the operator that runs in a frame."""
        self.count += 1
        self.by_frame.setdefault(id(frame), []).append(callback)

    def forget(self, frame: FrameType) -> None:
        """The operator that ran in a frame will not be logged."""
        self.count -= len(self.by_frame.pop(id(frame), ()))


def working_stream(inner: list[Callback], current: StreamId, *, waits_first: bool = False) -> StreamId:
    """Return the stream that an operator worked on, by the callbacks that came while it ran.

    One that works on a stream of its own makes it wait for the current stream, and records an event on it afterwards.

    Args:
        inner: the callbacks, in their order.
        current: the current stream.
        waits_first: one of its own always waits for the current stream first: another one that only records is not it.

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
        return inner[-1].stream  # one of several that are launched together: the end comes later
    for entry in reversed(inner):
        if entry.kind is Kind.RECORD:
            recorded.add(entry.stream)
            last = last or entry.stream
        elif entry.kind is Kind.WAIT and entry.stream in recorded:
            return entry.stream
    return current if waits_first else last or current


def place_of_work(inner: list[Callback], stream: StreamId) -> int:
    """Return the index of the callback before which an operator's work on its stream belongs.

    It comes after the waits at its start, and before the first record after them: `Work.wait` waits for that one. It
    comes before it makes the host wait.
    """
    place = len(inner)
    for index in range(len(inner) - 1, -1, -1):
        entry = inner[index]
        if entry.kind is Kind.WAIT and entry.stream == stream:
            return place
        if entry.kind in SYNCS or (entry.kind is Kind.RECORD and entry.stream == stream):
            place = index
    return place
