"""Program order in the queues of streams, as established by the calls of the monitor."""

from collections.abc import Callable
from typing import Any

from syncheck.hb.ids import AllocationId, EventId, GraphId, StreamId
from syncheck.sim.queues import Marker, Queues
from syncheck.sim.virtual_gpus import VirtualGpus
from syncheck.witness.schedule import Policy


class StreamOrder:
    """Enforces the order established by monitor calls, so that no schedule can violate it.

    Attributes:
        queues: the queues of all streams.

    Args:
        gpus: the streams and the monitor.
        policy: decides which streams run.
        recorded: filled with allocation -> streams passed to `record_stream`.
    """

    def __init__(self, gpus: VirtualGpus, policy: Policy, recorded: dict[AllocationId, set[StreamId]]) -> None:
        self.queues = Queues(policy)
        self._gpus = gpus
        self._events: dict[EventId, Marker] = {}
        self._replays: dict[GraphId, Marker] = {}  # the latest replay of each graph
        self._recorded = recorded
        self._separate: dict[StreamId, list[Marker]] = {}  # work that belongs to a stream but has its own queue
        self._acts: dict[str, Callable[..., None]] = {
            "launch": self._launch,
            "replay": self._replay,
            "record": self._record,
            "drop_event": self.forget,
            "wait": self._wait,
            "wait_stream": self._wait_stream,
            "sync_event": self._sync_event,
            "sync_stream": self._sync_stream,
            "sync_device": self._sync_device,
            "record_stream": self._record_stream,
            "free": self._free,
            "capture_begin": self._capture_begin,
        }
        gpus.guarded.followed |= self._acts.keys()
        gpus.guarded.followers.append(self._follow)

    def _follow(self, name: str, args: tuple[Any, ...]) -> None:
        act = self._acts.get(name)
        if act is not None:
            act(*args)

    def wait_implicitly(self, stream: StreamId) -> None:
        """Make a stream wait for the streams that it is implicitly ordered with."""
        for other in self._gpus.ordered_with(stream):
            self.queues.wait(stream, self.queues.mark(other))

    def finish(self, stream: StreamId) -> bool:
        """Run all pending work of a stream, and return whether there was any."""
        self.wait_implicitly(stream)
        markers = [marker for marker in self._all_of(stream) if not self.queues.is_done(marker)]
        for marker in markers:
            self.queues.finish(marker)
        if markers:
            self.queues.pump()
        return bool(markers)

    def add_separate_queue(self, stream: StreamId, marker: Marker) -> None:
        """Associate work in a separate queue with a stream, for host waits for the stream and `record_stream`."""
        self._separate[stream] = [*self._all_of(stream)[1:], marker]

    def _all_of(self, stream: StreamId) -> list[Marker]:
        """Return markers for all work submitted to a stream."""
        beside = [marker for marker in self._separate.get(stream, ()) if not self.queues.is_done(marker)]
        return [self.queues.mark(stream), *beside]

    def wait_for_replay(self, graph: GraphId, stream: StreamId) -> None:
        """Make the next work of a stream, a replay of a graph, wait for the graph's latest replay.

        Source:
            CUDA Runtime API, cudaGraphLaunch.
        """
        marker = self._replays.get(graph)
        if marker is not None:
            self.queues.wait(stream, marker)

    def forget(self, event: EventId) -> None:
        """Forget an event that has been destroyed."""
        self._events.pop(event, None)

    def set_marker(self, event: EventId, marker: Marker) -> None:
        """Make an event stand for other work than everything submitted to its stream so far."""
        self._events[event] = marker

    def is_pending(self, stream: StreamId) -> Callable[[], bool]:
        """Return a function that returns whether the stream's current work is still pending."""
        markers = self._all_of(stream)
        return lambda: not all(map(self.queues.is_done, markers))

    # -- calls of the monitor

    def _launch(self, stream: StreamId, *_: Any) -> None:
        if not self._gpus.monitor.capturing(stream):
            self.queues.count_launch(stream)
        self.queues.host_submitted()

    def _replay(self, graph: GraphId, stream: StreamId, *_: Any) -> None:
        self.queues.count_launch(stream)
        self._replays[graph] = self.queues.mark(stream)
        self.queues.host_submitted()

    def _record(self, event: EventId, stream: StreamId, *_: Any) -> None:
        self.wait_implicitly(stream)
        self._events[event] = self.queues.mark(stream)

    def _wait(self, event: EventId, stream: StreamId, *_: Any) -> None:
        marker = self._events.get(event)
        if marker is not None:
            self.wait_implicitly(stream)
            self.queues.wait(stream, marker)

    def _wait_stream(self, stream: StreamId, other: StreamId, *_: Any) -> None:
        self.wait_implicitly(other)
        self.wait_implicitly(stream)
        self.queues.wait(stream, self.queues.mark(other))

    def _sync_event(self, event: EventId, *_: Any) -> None:
        marker = self._events.get(event)
        if marker is not None:
            self.queues.finish(marker)
            self.queues.pump()

    def _sync_stream(self, stream: StreamId, *_: Any) -> None:
        self.finish(stream)

    def _sync_device(self, device: int, *_: Any) -> None:
        for stream in self._gpus.streams_of(device):
            self.finish(stream)

    def _record_stream(self, allocation: AllocationId, _: Any, stream: StreamId, *__: Any) -> None:
        self._recorded.setdefault(allocation, set()).add(stream)

    def _capture_begin(self, *_: Any) -> None:
        self.queues.finish_all()  # after a capture, memory is restored to its current state

    def _free(self, allocation: AllocationId, *_: Any) -> None:
        self._recorded.pop(allocation, None)
