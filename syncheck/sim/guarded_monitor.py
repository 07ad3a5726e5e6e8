"""Boundary between simulator and checker: an error in the checker ends the check, not the user's program."""

from collections import deque
from collections.abc import Callable
from typing import Any

from syncheck.hb.ids import EventId, StreamId
from syncheck.instrument.failures import stopped_by
from syncheck.sanitizer.monitor import Monitor
from syncheck.sim.null_monitor import NullMonitor


class CapturedStreams:
    """Tracks the streams that are being captured. The simulator records their work even after checking has stopped.

    Attributes:
        streams: the captured streams.

    Source:
        CUDA C++ Programming Guide, "Cross-stream Dependencies and Events": a stream that waits for captured work joins
        the capture.
    """

    def __init__(self) -> None:
        self.streams: set[StreamId] = set()
        self._events: set[EventId] = set()

    def __contains__(self, stream: StreamId) -> bool:
        return stream in self.streams

    def follow(self, name: str, args: tuple[Any, ...]) -> None:
        """Track a call of the monitor."""
        match name:
            case "capture_begin":
                self.streams, self._events = {args[1]}, set()
            case "capture_end":
                self.streams, self._events = set(), set()
            case "record" if args[1] in self.streams:
                self._events.add(args[0])
            case "wait" if args[0] in self._events:
                self.streams.add(args[1])
            case "wait_stream" if args[1] in self.streams:
                self.streams.add(args[0])


_FOLLOWED = frozenset(
    "capture_begin capture_end record stream sync_device sync_event sync_stream wait wait_stream".split()
)


class GuardedMonitor:
    """Forwards calls to a monitor. After an error in the monitor, calls are ignored and the report says so.

    Attributes:
        captured: the streams that are being captured.
        guard: a context manager for code that may fail. If it does, checking stops and the program continues.
        followers: callbacks that run after each call that creates or orders streams, whether or not checking has
            stopped. They receive the call's name and arguments.
        followed: names of the calls that followers are notified of. Must not change after the first such call.

    Args:
        monitor: receives the operations of the program.
    """

    def __init__(self, monitor: Monitor) -> None:
        self._monitor: Any = monitor
        self.captured = CapturedStreams()
        self.guard = _Guard(self)
        self.followers: list[Callable[[str, tuple[Any, ...]], None]] = [self.captured.follow]
        self.followed = _FOLLOWED
        self._failed: tuple[Monitor, str] | None = None  # the monitor that failed, and how

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_") or not hasattr(Monitor, name):
            raise AttributeError(name)
        call = self._followed(name) if name in self.followed else self._guarded(name)
        setattr(self, name, call)
        return call

    def _guarded(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return getattr(self._monitor, name)(*args, **kwargs)
            except Exception as error:  # noqa: BLE001  boundary to the user's program
                self.fail(error)
                return getattr(self._monitor, name)(*args, **kwargs)

        return call

    def _followed(self, name: str) -> Callable[..., Any]:
        guarded = self._guarded(name)

        def call(*args: Any, **kwargs: Any) -> Any:
            result = guarded(*args, **kwargs)
            for follow in self.followers:
                follow(name, args)
            return result

        return call

    def deliver(self, calls: deque[tuple[str, tuple[Any, ...]]]) -> None:
        """Make calls that no follower is notified of, as (name, arguments), and remove them from the queue."""
        while calls:
            try:
                monitor = self._monitor
                while calls:
                    name, arguments = calls.popleft()
                    getattr(monitor, name)(*arguments)
            except Exception as error:  # noqa: BLE001  boundary to the user's program
                self.fail(error)

    def capturing(self, stream: StreamId) -> bool:
        """Return whether a stream is being captured."""
        return stream in self.captured

    def fail(self, error: BaseException) -> None:
        """Handle a failure of syncheck itself: stop checking and let the program continue."""
        if self._failed is None:
            self._failed = self._monitor, stopped_by(error)
            self._monitor = NullMonitor()
            self.repeat_failure()

    def repeat_failure(self) -> None:
        """If checking has stopped because of a failure, say so in the report once more."""
        if self._failed is not None:
            failed, reason = self._failed
            failed.incomplete(reason)


class _Guard:
    """Context manager that ends the check if its block fails. A generator would take longer than most such blocks."""

    __slots__ = ("_monitor",)

    def __init__(self, monitor: GuardedMonitor) -> None:
        self._monitor = monitor

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, Exception):
            self._monitor.fail(error)
            return True
        return False
