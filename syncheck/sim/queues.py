"""Queues of streams: what has been submitted and has not run yet. Integers and functions only, no torch.

Whatever a schedule decides, all that happens before an entry has run when it runs: a stream runs its entries in order,
an entry that waits for another stream's runs after those, and what the host waits for has run when it goes on.
"""

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from syncheck.hb.ids import StreamId
from syncheck.witness.schedule import LaunchId, Policy


class Marker(NamedTuple):
    """All that a stream had been given at some time: `position` counts its entries."""

    stream: StreamId
    position: int


@dataclass(frozen=True, slots=True)
class _Entry:
    """Something in a queue.

    Attributes:
        launch: the number of the launch that it is, or that comes next; for those that decide.
        is_launch: it is one.
        run: runs it; None for a wait.
        waits_for: what has to have run before; None for nothing.
        is_ready: says whether it may run before something has to wait for it.
    """

    launch: LaunchId
    is_launch: bool
    run: Callable[[], None] | None
    waits_for: Marker | None = None
    is_ready: Callable[[], bool] = lambda: True


class Queues:
    """The queues of all streams.

    Attributes:
        executed: launches in the order in which they ran, the newest last; kept for those that are watched.

    Args:
        policy: decides which streams run.
        watched: launches of which the order is of interest.
    """

    def __init__(self, policy: Policy, watched: frozenset[LaunchId] = frozenset()) -> None:
        self._policy = policy
        self._watched = watched
        self._queues: dict[StreamId, deque[_Entry]] = {}
        self._submitted: Counter[StreamId] = Counter()
        self._done: Counter[StreamId] = Counter()
        self._launched: Counter[StreamId] = Counter()  # as the monitor counts them
        self._is_running = False
        self.executed: list[LaunchId] = []

    def next_launch(self, stream: StreamId) -> LaunchId:
        """Return the number of the next launch on a stream."""
        return LaunchId(stream, self._launched[stream] + 1)

    def count_launch(self, stream: StreamId) -> None:
        """A launch was reported to the monitor."""
        self._launched[stream] += 1

    def is_free(self, stream: StreamId) -> bool:
        """Return whether what is submitted to a stream now may run at once."""
        return not self._queues.get(stream) and self._policy.may_run(self.next_launch(stream))

    def is_idle(self) -> bool:
        """Return whether all that was submitted has run."""
        return not any(self._queues.values())

    # -- submitting

    def put(
        self,
        stream: StreamId,
        run: Callable[[], None],
        *,
        is_launch: bool = True,
        is_ready: Callable[[], bool] = lambda: True,
        launch: LaunchId | None = None,
    ) -> None:
        """Submit something to a stream.

        Args:
            stream: which one.
            run: runs it.
            is_launch: it is a launch.
            is_ready: says whether it may run before something has to wait for it.
            launch: which launch it is; None: the next one of the stream.
        """
        self._add(stream, _Entry(launch or self.next_launch(stream), is_launch, run, is_ready=is_ready))

    def ran(self, stream: StreamId) -> None:
        """A launch on a free stream has run at once."""
        self._submitted[stream] += 1
        self._done[stream] += 1
        self._has_run(self.next_launch(stream))

    def mark(self, stream: StreamId) -> Marker:
        """Return all that a stream has been given."""
        return Marker(stream, self._submitted[stream])

    def is_done(self, marker: Marker) -> bool:
        """Return whether all that a marker stands for has run."""
        return self._done[marker.stream] >= marker.position

    def wait(self, stream: StreamId, marker: Marker) -> None:
        """Let what a stream is given from now on run after what a marker stands for."""
        if not self.is_done(marker) and marker.stream != stream:
            self._add(stream, _Entry(self.next_launch(stream), False, None, marker))

    def _add(self, stream: StreamId, entry: _Entry) -> None:
        self._submitted[stream] += 1
        self._queues.setdefault(stream, deque()).append(entry)

    # -- running

    def host_steps(self) -> None:
        """The host has submitted something: run what may run."""
        self._policy.host_steps()
        self.pump()

    def pump(self) -> None:
        """Run what may run."""
        if self._is_running:
            return
        while sum(self._run_head(stream) for stream in list(self._queues)):
            pass

    def _run_head(self, stream: StreamId) -> bool:
        """Run what stands first in a queue if it may; return whether it did."""
        queue = self._queues[stream]
        if not queue or not self._policy.may_run(queue[0].launch) or not queue[0].is_ready():
            return False
        marker = queue[0].waits_for
        if marker is not None and not self.is_done(marker):
            return False
        self._run_first(stream)
        return True

    def finish(self, marker: Marker) -> None:
        """Run all that a marker stands for, and what it waits for: something needs it now."""
        while self._done[marker.stream] < marker.position:
            first = self._queues[marker.stream][0]
            if first.waits_for is not None:
                self.finish(first.waits_for)
            self._run_first(marker.stream)

    def finish_all(self) -> None:
        """Run everything."""
        for stream in list(self._queues):
            self.finish(self.mark(stream))

    def _run_first(self, stream: StreamId) -> None:
        entry = self._queues[stream].popleft()
        self._done[stream] += 1
        if entry.run is not None:
            was_running, self._is_running = self._is_running, True
            try:
                entry.run()
            finally:
                self._is_running = was_running
        if entry.is_launch:
            self._has_run(entry.launch)

    def _has_run(self, launch: LaunchId) -> None:
        if launch in self._watched:
            self.executed.append(launch)
        self._policy.has_run(launch)
