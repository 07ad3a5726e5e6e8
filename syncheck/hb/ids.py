"""Argument types of `Monitor`: ids, accesses, and enumerations."""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple, NewType, TypeAlias

StreamId = NewType("StreamId", int)
"""A stream, numbered from 1 in order of first appearance; 0 is the host."""
EventId = NewType("EventId", int)
AllocationId = NewType("AllocationId", int)
"""One lifetime of a block of memory; addresses are reused, ids are not."""
ViewId = NewType("ViewId", int)
"""Some bytes of an allocation, as registered with `Monitor.view`."""
SiteId = NewType("SiteId", int)
"""A call site, assigned by a backend's `Sites`; 0 means unknown."""
GraphId = NewType("GraphId", int)
ReadingId = NewType("ReadingId", int)
"""One reading of a host clock."""
HostId = NewType("HostId", int)
"""A thread of the program that acts as a host of the GPUs; numbered from 1."""
SyncId = NewType("SyncId", int)
"""An object that orders threads, such as a queue or the start of a thread."""

EVERY_THREAD = HostId(0)
"""Stands for threads of unknown order: work they wait for counts as waited for by every thread."""
MAIN_THREAD = HostId(1)
"""The thread that the program starts in."""

NO_EVENT = EventId(0)
NO_ALLOCATION = AllocationId(0)
NO_VIEW = ViewId(-1)
UNKNOWN_SITE = SiteId(0)

Access: TypeAlias = tuple[AllocationId, ViewId, bool]
"""(allocation, view, whether it is written)."""
Accesses: TypeAlias = Sequence[Access]


class Context(NamedTuple):
    """A stream context that an operator runs in but that does not apply to it.

    Attributes:
        stream: the stream of the context. In a thread that did not inherit its starter's current stream, that stream.
        entered: the site where the context was entered; 0 in such a thread.
    """

    stream: StreamId
    entered: SiteId


class StreamOrigin(StrEnum):
    """How the program obtained a stream that it passes to an ordering call."""

    BY_NAME = ""
    CURRENT = "current_stream"
    DEFAULT = "default_stream"
    BY_TORCH = "torch"
    """Torch makes the call itself."""


class WaitCall(StrEnum):
    """The call that makes a stream wait for an event."""

    TORCH = ""
    """Torch itself waits."""
    EVENT_WAIT = "event"
    STREAM_WAIT_EVENT = "stream"


class NamedKind(StrEnum):
    """The kind of object that a program's name refers to.

    A group is a container of several objects and has the id of any one of them.
    """

    STREAM = "stream"
    EVENT = "event"
    ALLOCATION = "allocation"
    GRAPH = "graph"
    STREAM_GROUP = "stream group"
    ALLOCATION_GROUP = "allocation group"


class ObjectKind(StrEnum):
    """Kinds of objects whose creation is reported because a loop should not create them."""

    STREAM = "stream"
    TIMING_EVENT = "timing event"


BY_TORCH = (StreamOrigin.BY_TORCH, StreamOrigin.BY_NAME)
"""The `origins` argument of a `Monitor.wait_stream` call that torch makes itself."""
