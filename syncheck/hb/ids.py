"""What the calls of `Monitor` are made of: ids, accesses, and a few words with a fixed meaning."""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple, NewType, TypeAlias

StreamId = NewType("StreamId", int)
"""A stream, from 1 in the order of their appearance; 0 is the host."""
EventId = NewType("EventId", int)
AllocationId = NewType("AllocationId", int)
"""One life of a block of memory; addresses are reused, ids are not."""
ViewId = NewType("ViewId", int)
"""Some bytes of an allocation; given by `Monitor.view`."""
SiteId = NewType("SiteId", int)
"""A call site, given by a backend's `Sites`; 0 is unknown."""
GraphId = NewType("GraphId", int)
ReadingId = NewType("ReadingId", int)
"""One reading of a host clock."""
HostId = NewType("HostId", int)
"""A thread of the program, as the host of the GPUs; from 1."""
SyncId = NewType("SyncId", int)
"""Something that orders threads: a queue, the start of a thread."""

EVERY_THREAD = HostId(0)
"""Stands for threads that nothing is known of: what they wait for, every thread has waited for."""
MAIN_THREAD = HostId(1)
"""The thread that the program begins with."""

NO_EVENT = EventId(0)
NO_ALLOCATION = AllocationId(0)
NO_VIEW = ViewId(-1)
UNKNOWN_SITE = SiteId(0)

Access: TypeAlias = tuple[AllocationId, ViewId, bool]
"""(allocation, view, whether it is written)."""
Accesses: TypeAlias = Sequence[Access]


class Context(NamedTuple):
    """A stream context that an operator runs in and that does not apply to it.

    Attributes:
        stream: the stream of the context; in a thread that lost the current stream of its starter, that stream.
        entered: where the context was entered; 0 in such a thread.
    """

    stream: StreamId
    entered: SiteId


class LookedUp(StrEnum):
    """How the program got a stream that it names in an ordering call."""

    BY_NAME = ""
    CURRENT = "current_stream"
    DEFAULT = "default_stream"
    BY_TORCH = "torch"
    """Torch makes the call by itself."""


class WaitCall(StrEnum):
    """The call by which a stream waits for an event."""

    TORCH = ""
    """Torch waits by itself."""
    EVENT_WAIT = "event"
    STREAM_WAIT_EVENT = "stream"


class NamedKind(StrEnum):
    """What the program has a name for; a group is a container of several, and has the id of any of them."""

    STREAM = "stream"
    EVENT = "event"
    ALLOCATION = "allocation"
    GRAPH = "graph"
    STREAM_GROUP = "stream group"
    ALLOCATION_GROUP = "allocation group"


class ObjectKind(StrEnum):
    """Objects whose creation is reported because a loop should not create them."""

    STREAM = "stream"
    TIMING_EVENT = "timing event"


BY_TORCH = (LookedUp.BY_TORCH, LookedUp.BY_NAME)
"""Of `Monitor.wait_stream`: torch makes the call by itself."""
