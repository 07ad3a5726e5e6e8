"""The CUDA state that is current in a Python thread, and the part of it that a new thread does not inherit.

Source:
    CUDA Runtime API, cudaSetDevice: the current device is per host thread. c10/cuda/CUDAStream.cpp: current streams are
    thread-local, and a new thread begins with the default streams.
"""

from dataclasses import dataclass, field
from typing import Protocol

from syncheck.hb.clock import HOST
from syncheck.hb.ids import Context, SiteId, StreamId


@dataclass(slots=True)
class ThreadState:
    """The current CUDA state of one Python thread.

    Attributes:
        device: the current device.
        streams: device -> current stream, if it is not the default stream; 0 if it is unknown.
        contexts: (stream, call site) of the entered `torch.cuda.stream` blocks, innermost last.
        implicit_device: an index was left out, so that the current device was used.
        set_explicitly: the thread has set a device or a stream itself.
        expected_stream: the starter's stream that this thread should have made current but did not; 0 if none.
        inherited: (device, its current streams) of the thread that started this one; None once it was checked.
        pools: device -> the memory pool in use, if it is not the allocator's default pool.
    """

    device: int = 0
    streams: dict[int, StreamId] = field(default_factory=dict)
    contexts: list[tuple[StreamId, SiteId]] = field(default_factory=list)
    implicit_device: bool = False
    set_explicitly: bool = False
    inherited: tuple[int, dict[int, StreamId]] | None = None
    expected_stream: StreamId = HOST
    pools: dict[int, int] = field(default_factory=dict)


class StreamTable(Protocol):
    """Looks up properties of streams."""

    def device_of(self, stream: StreamId) -> int:
        """Return a stream's device."""
        ...

    def handle_of(self, stream: StreamId) -> int:
        """Return a stream's handle; 0 means a default stream."""
        ...

    def default_stream(self, device: int) -> StreamId:
        """Return a device's default stream."""
        ...


def context_of(state: ThreadState, device: int, other: int, table: StreamTable) -> Context | None:
    """Return the context that an operator runs in but that does not apply to it; None if there is none.

    That is the stream that the thread did not inherit, or the innermost entered block if no entered block is for one
    of the operator's devices.
    """
    if state.expected_stream:
        return Context(state.expected_stream, SiteId(0))
    if not state.contexts or any(table.device_of(stream) in {device, other} for stream, _ in state.contexts):
        return None
    stream, site = state.contexts[-1]
    return Context(stream, site) if table.handle_of(stream) else None


def take_lost_stream(state: ThreadState, stream: StreamId, table: StreamTable) -> StreamId:
    """Return the stream that a thread should have made current, on its first operator; HOST if there is none.

    Args:
        state: the thread's state; its inherited state is checked only once.
        stream: the stream that the operator runs on.
        table: looks up streams.
    """
    inherited, state.inherited = state.inherited, None
    if inherited is None or state.set_explicitly:
        return HOST
    device, streams = inherited
    own_device = table.device_of(stream)
    if device != own_device and state.implicit_device:
        state.expected_stream = streams.get(device, table.default_stream(device))
    elif streams.get(own_device, stream) != stream:
        state.expected_stream = streams[own_device]
    return state.expected_stream
