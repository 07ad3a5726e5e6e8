"""Keeps the order of a program in the queues of its streams: what the monitor is called with is what orders them."""

from collections.abc import Callable
from typing import Any

from syncheck.hb.ids import AllocationId, EventId, GraphId, StreamId
from syncheck.sim.queues import Marker, Queues
from syncheck.sim.virtual_gpus import VirtualGpus
from syncheck.witness.schedule import Policy


class StreamOrder:
    """Follows the calls of the monitor that order work, so that no schedule can break what they order.

    Attributes:
        queues: of all streams.

    Args:
        gpus: the streams, and the monitor.
        policy: decides which streams run.
        recorded: filled with the streams that `record_stream` was given for an allocation.
    """

    def __init__(self, gpus: VirtualGpus, policy: Policy, recorded: dict[AllocationId, set[StreamId]]) -> None:
        self.queues = Queues(policy)
        self._gpus = gpus
        self._events: dict[EventId, Marker] = {}
        self._replays: dict[GraphId, Marker] = {}  # the latest one of each graph
        self._recorded = recorded
        self._beside: dict[StreamId, list[Marker]] = {}  # what counts as a stream's and has a queue of its own
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
        """Let a stream wait for those that it is ordered with by itself."""
        for other in self._gpus.ordered_with(stream):
            self.queues.wait(stream, self.queues.mark(other))

    def finish(self, stream: StreamId) -> bool:
        """Run all that a stream has been given; return whether there was anything."""
        self.wait_implicitly(stream)
        markers = [marker for marker in self._all_of(stream) if not self.queues.is_done(marker)]
        for marker in markers:
            self.queues.finish(marker)
        if markers:
            self.queues.pump()
        return bool(markers)

    def add_beside(self, stream: StreamId, marker: Marker) -> None:
        """Count what has a queue of its own as a stream's where the host waits for that, or memory is kept for it."""
        self._beside[stream] = [*self._all_of(stream)[1:], marker]

    def _all_of(self, stream: StreamId) -> list[Marker]:
        """Return what stands for all that a stream has been given."""
        beside = [marker for marker in self._beside.get(stream, ()) if not self.queues.is_done(marker)]
        return [self.queues.mark(stream), *beside]

    def wait_for_replay(self, graph: GraphId, stream: StreamId) -> None:
        """Let a replay that a stream is about to be given wait for the graph's latest one.

        Source:
            CUDA Runtime API, cudaGraphLaunch.
        """
        marker = self._replays.get(graph)
        if marker is not None:
            self.queues.wait(stream, marker)

    def forget(self, event: EventId) -> None:
        """An event is gone."""
        self._events.pop(event, None)

    def remark(self, event: EventId, marker: Marker) -> None:
        """An event stands for something else than all that its stream was given."""
        self._events[event] = marker

    def is_pending(self, stream: StreamId) -> Callable[[], bool]:
        """Return what says whether the work that a stream has now is pending."""
        markers = self._all_of(stream)
        return lambda: not all(map(self.queues.is_done, markers))

    # -- calls of the monitor

    def _launch(self, stream: StreamId, *_: Any) -> None:
        if not self._gpus.monitor.capturing(stream):
            self.queues.count_launch(stream)
        self.queues.host_steps()

    def _replay(self, graph: GraphId, stream: StreamId, *_: Any) -> None:
        self.queues.count_launch(stream)
        self._replays[graph] = self.queues.mark(stream)
        self.queues.host_steps()

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
        self.queues.finish_all()  # a capture puts memory back as it is now

    def _free(self, allocation: AllocationId, *_: Any) -> None:
        self._recorded.pop(allocation, None)
