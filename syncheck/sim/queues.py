"""Queues of streams: submitted work that has not run yet. Only integers and functions, no torch objects.

Whatever a schedule decides, everything that happens before an entry has run when the entry runs: a stream runs its
entries in order, an entry that waits for another stream runs after the work it waits for, and the host continues only
after the work it waits for has run.
"""

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from syncheck.hb.ids import StreamId
from syncheck.witness.schedule import LaunchId, Policy


class Marker(NamedTuple):
    """All work submitted to a stream up to a point in time. `position` is the number of its entries."""

    stream: StreamId
    position: int


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry of a queue.

    Attributes:
        launch: the launch's number, or the next launch's for other entries. The policy decides by it.
        is_launch: whether the entry is a launch.
        run: runs the entry; None for a wait.
        waits_for: the work that must have run before; None for nothing.
        is_ready: returns whether it may run before something has to wait for it.
    """

    launch: LaunchId
    is_launch: bool
    run: Callable[[], None] | None
    waits_for: Marker | None = None
    is_ready: Callable[[], bool] = lambda: True


class Queues:
    """The queues of all streams.

    Attributes:
        executed: watched launches in the order in which they ran.

    Args:
        policy: decides which streams run.
        watched: launches whose order is recorded.
    """

    def __init__(self, policy: Policy, watched: frozenset[LaunchId] = frozenset()) -> None:
        self._policy = policy
        self._watched = watched
        self._queues: dict[StreamId, deque[_Entry]] = {}
        self._submitted: Counter[StreamId] = Counter()
        self._done: Counter[StreamId] = Counter()
        self._launched: Counter[StreamId] = Counter()  # counts as the monitor does
        self._is_running = False
        self.executed: list[LaunchId] = []

    def next_launch(self, stream: StreamId) -> LaunchId:
        """Return the number of the next launch on a stream."""
        return LaunchId(stream, self._launched[stream] + 1)

    def count_launch(self, stream: StreamId) -> None:
        """Count a launch that was reported to the monitor."""
        self._launched[stream] += 1

    def is_free(self, stream: StreamId) -> bool:
        """Return whether an operation submitted to a stream now may run immediately."""
        return not self._queues.get(stream) and self._policy.may_run(self.next_launch(stream))

    def is_idle(self) -> bool:
        """Return whether all submitted work has run."""
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
        """Submit an entry to a stream.

        Args:
            stream: the stream.
            run: runs the entry.
            is_launch: whether it is a launch.
            is_ready: returns whether it may run before something has to wait for it.
            launch: the launch's number; None for the next number of the stream.
        """
        self._add(stream, _Entry(launch or self.next_launch(stream), is_launch, run, is_ready=is_ready))

    def ran(self, stream: StreamId) -> None:
        """Record that a launch on a free stream has run immediately."""
        self._submitted[stream] += 1
        self._done[stream] += 1
        self._note_launch_ran(self.next_launch(stream))

    def mark(self, stream: StreamId) -> Marker:
        """Return a marker for everything submitted to a stream so far."""
        return Marker(stream, self._submitted[stream])

    def is_done(self, marker: Marker) -> bool:
        """Return whether everything up to a marker has run."""
        return self._done[marker.stream] >= marker.position

    def wait(self, stream: StreamId, marker: Marker) -> None:
        """Make later entries of a stream run after everything up to a marker."""
        if not self.is_done(marker) and marker.stream != stream:
            self._add(stream, _Entry(self.next_launch(stream), False, None, marker))

    def _add(self, stream: StreamId, entry: _Entry) -> None:
        self._submitted[stream] += 1
        self._queues.setdefault(stream, deque()).append(entry)

    # -- running

    def host_submitted(self) -> None:
        """Advance the policy after the host has submitted something, and run the entries that may run."""
        self._policy.host_submitted()
        self.pump()

    def pump(self) -> None:
        """Run all entries that may run."""
        if self._is_running:
            return
        while sum(self._run_head(stream) for stream in list(self._queues)):
            pass

    def _run_head(self, stream: StreamId) -> bool:
        """Run the first entry of a queue if it may run, and return whether it did."""
        queue = self._queues[stream]
        if not queue or not self._policy.may_run(queue[0].launch) or not queue[0].is_ready():
            return False
        marker = queue[0].waits_for
        if marker is not None and not self.is_done(marker):
            return False
        self._run_first(stream)
        return True

    def finish(self, marker: Marker) -> None:
        """Run everything up to a marker, including the work it waits for, because it is needed now."""
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
            self._note_launch_ran(entry.launch)

    def _note_launch_ran(self, launch: LaunchId) -> None:
        if launch in self._watched:
            self.executed.append(launch)
        self._policy.launch_ran(launch)
