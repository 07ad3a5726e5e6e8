"""Events: identifies them by object and by handle, and hooks their methods."""

import weakref
from collections import deque
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import torch

from syncheck.cuda.callback_order import PendingCallbacks
from syncheck.cuda.captures import Captures
from syncheck.cuda.open_classes import NOT_COMPLETE, WITHOUT_TIMES, elapsed_time, milliseconds_between
from syncheck.cuda.reporter import Reporter
from syncheck.cuda.streams import Streams
from syncheck.hb.ids import NO_EVENT, UNKNOWN_SITE, EventId, NamedKind, ObjectKind, StreamOrigin, WaitCall
from syncheck.instrument.patching import Patches
from syncheck.sanitizer.monitor import Monitor

ORIGIN = "_syncheck_origin"
"""Attribute of a stream object: the function that the program called to obtain it."""
_IDENT = "_syncheck_event"


class _Finalizer:
    """Detects the end of an object from its `__dict__`: torch's streams and events never call back weak references.

    Source:
        torch/csrc/cuda/Stream.cpp and Event.cpp: their deallocators clear no weak references.
    """

    __slots__ = ("_action", "_args")

    def __init__(self, action: "weakref.WeakMethod[Callable[..., None]]", args: tuple[Any, ...]) -> None:
        self._action, self._args = action, args

    def __del__(self) -> None:
        action = self._action()
        if action is not None:
            action(*self._args)


def on_finalize(thing: Any, action: "weakref.WeakMethod[Callable[..., None]]", *args: Any) -> None:
    """Call a method, if its owner still exists, when a stream or event object is destroyed."""
    thing.__dict__["_syncheck_life"] = _Finalizer(action, args)


class Events:
    """Tracks every event, by object if Python created it and by handle if C++ did.

    Attributes:
        by_handle: handle -> event, for the events that have been recorded.
        on_record: called with an event that was recorded by Python code, or according to a callback from torch.
        on_wait: called before Python code makes the host wait for an event.
    """

    def __init__(self, reporter: Reporter, streams: Streams, pending: PendingCallbacks, captures: Captures) -> None:
        self._reporter = reporter
        self._streams = streams
        self._pending_callbacks = pending
        self._captures = captures
        self.by_handle: dict[int, EventId] = {}
        self.on_record: Callable[[EventId], None] = lambda _: None
        self.on_wait: Callable[[], None] = lambda: None
        self._handles: dict[EventId, int] = {}  # events of Python objects -> handle, once recorded
        self._destroyed: deque[tuple[EventId, bool]] = deque()  # destroyed events, and whether they have timing
        self._alive: set[EventId] = set()  # events of existing Python objects
        self._timing: dict[EventId, bool] = {}
        reporter.before_call.append(self._flush)

    # -- identity

    def is_known(self, handle: int) -> bool:
        """Return whether an event has been seen since the check began."""
        return handle in self.by_handle

    def of_handle(self, handle: int) -> EventId:
        """Return the event with a handle, announcing it when it is first seen."""
        known = self.by_handle.get(handle)
        if known is None:
            known = self.add(handle)
            with self._reporter.locked_monitor() as monitor:
                monitor.event(known, UNKNOWN_SITE)
        return known

    def add(self, handle: int) -> EventId:
        """Return a new event for a handle; the caller announces it."""
        ident = self.by_handle[handle] = self._reporter.next_event()
        return ident

    def deleted(self, handle: int) -> None:
        """Drop a handle, which may be reused for another event. Called at any time."""
        ident = self.by_handle.pop(handle, None)
        if ident is not None and ident not in self._alive:
            self._destroyed.append((ident, False))

    def _flush(self, monitor: Monitor) -> None:
        """Report destroyed events, unless pending callbacks may still refer to them."""
        if self._pending_callbacks.count:
            return
        while self._destroyed:
            ident, timing = self._destroyed.popleft()
            if timing:
                monitor.object_destroyed(ObjectKind.TIMING_EVENT, ident)
            monitor.drop_event(ident)

    def announce(self, event: Any, *, timing: bool, external: bool = False) -> EventId:
        """Announce an event object that the program created."""
        reporter = self._reporter
        ident = reporter.next_event()
        with reporter.locked_monitor() as monitor:
            site = reporter.sites.here()
            monitor.event(ident, site, timing=timing, external=external)
            reporter.name_new(NamedKind.EVENT, ident, site)
            if timing:
                monitor.object_created(ObjectKind.TIMING_EVENT, ident, site)
        setattr(event, _IDENT, (reporter.token, ident))
        self._timing[ident] = timing

        self._alive.add(ident)
        on_finalize(event, weakref.WeakMethod(self._forget), ident, timing)
        return ident

    def _forget(self, ident: EventId, timing: bool) -> None:  # noqa: FBT001  called by position
        self._alive.discard(ident)
        self._timing.pop(ident, None)
        handle = self._handles.pop(ident, 0)
        if self.by_handle.get(handle) == ident:
            del self.by_handle[handle]
        self._destroyed.append((ident, timing))

    def of(self, event: Any) -> EventId:
        """Return the event of an object; 0 if it was recorded before the check began."""
        owner, ident = getattr(event, _IDENT, (None, 0))
        if owner is self._reporter.token:  # otherwise it is from an earlier check
            return EventId(ident)
        handle = _handle(event)
        if handle:
            return self.by_handle.get(handle, NO_EVENT)
        return self.announce(event, timing=False)

    # -- hooks

    def hook(self, patches: Patches, kind: Any) -> None:
        """Hook the methods of an event class."""
        exact = kind is torch.cuda.Event
        hooks: dict[str, Callable[[Any], Any]] = {
            "__new__": self._new,
            "record": self._record,
            "wait": self._wait,
            "query": self._query,
            "synchronize": self._synchronize,
            "elapsed_time": partial(self._elapsed_time, exact=exact),
        }
        for name, make in hooks.items():
            patches.set(kind, name, make(getattr(kind, name)))

    def _new(self, original: Any) -> Any:
        reporter = self._reporter

        @wraps(original)
        def new(cls: Any, *args: Any, **kwargs: Any) -> Any:
            event = original(cls, *args, **kwargs)
            if not reporter.callbacks_suppressed:
                timing = kwargs.get("enable_timing", bool(args) and args[0] is True)
                external = kwargs.get("external", len(args) > 3 and args[3] is True)
                self.announce(event, timing=bool(timing), external=bool(external))
            return event

        return staticmethod(new)

    def _record(self, original: Any) -> Any:
        reporter = self._reporter

        @wraps(original)
        def record(event: Any, stream: Any = None) -> None:
            if reporter.callbacks_suppressed:
                original(event, stream)
                return
            ident = self.of(event) or self.announce(event, timing=True)
            with reporter.suppressed():
                original(event, stream)
            target = self._streams.of_object(stream)
            handle = self._handles[ident] = _handle(event)
            self.by_handle[handle] = ident
            self.on_record(ident)
            origin = getattr(stream, ORIGIN, StreamOrigin.BY_NAME)
            with reporter.locked_monitor() as monitor:
                current = self._streams.current(self._streams.device_of(target))
                monitor.record(ident, target, reporter.sites.here(), origin, current)

        return record

    def _wait(self, original: Any) -> Any:
        @wraps(original)
        def wait(event: Any, stream: Any = None) -> None:
            self.wait(event, stream, WaitCall.EVENT_WAIT, original)

        return wait

    def wait(self, event: Any, stream: Any, via: WaitCall, original: Any) -> None:
        """Make a stream wait for an event."""
        reporter = self._reporter
        if reporter.callbacks_suppressed:
            original(event, stream)
            return
        ident = self.of(event)
        with reporter.suppressed():
            original(event, stream)
        if not ident:
            return
        target = self._streams.of_object(stream)
        origin = getattr(stream, ORIGIN, StreamOrigin.BY_NAME)
        with reporter.locked_monitor() as monitor:
            current = self._streams.current(self._streams.device_of(target))
            monitor.wait(ident, target, reporter.sites.here(), via, origin, current)

    def _query(self, original: Any) -> Any:
        reporter = self._reporter

        @wraps(original)
        def query(event: Any) -> Any:
            done = original(event)
            if done and not reporter.callbacks_suppressed and _handle(event):
                ident = self.of(event)
                if ident:
                    with reporter.locked_monitor() as monitor:
                        monitor.sync_event(ident, reporter.sites.here())
            return done

        return query

    def _synchronize(self, original: Any) -> Any:
        reporter = self._reporter

        @wraps(original)
        def synchronize(event: Any) -> None:
            if reporter.callbacks_suppressed:
                original(event)
                return
            ident = self.of(event)
            began_here = self._captures.is_in_this_thread()
            if began_here:
                self._captures.report_forbidden("Event.synchronize()")
            self.on_wait()
            try:
                with reporter.suppressed():
                    original(event)
            except RuntimeError as error:  # the capture mode decides whether other threads may wait
                if self._captures and not began_here and "captur" in str(error):
                    self._captures.report_forbidden("Event.synchronize()")
                raise
            if ident:
                with reporter.locked_monitor() as monitor:
                    monitor.sync_event(ident, reporter.sites.here())

        return synchronize

    def _generic_elapsed(self, event: Any, end_event: Any) -> float:
        """Return the milliseconds between events of the generic class, whose own method rejects subclasses.

        Source:
            torch/csrc/Event.cpp, `THPEvent_elapsed_time`; aten/src/ATen/cuda/CUDAEvent.h for the errors.
        """
        if not {self.of(event), self.of(end_event)} <= self._timing.keys():  # one predates the check
            return elapsed_time(event, end_event)
        if not (self._timing.get(self.of(event)) and self._timing.get(self.of(end_event))):
            raise ValueError(WITHOUT_TIMES)
        elapsed = milliseconds_between(_handle(event), _handle(end_event))
        if elapsed is None:
            raise RuntimeError(NOT_COMPLETE)
        return elapsed

    def _elapsed_time(self, original: Any, *, exact: bool) -> Any:
        reporter = self._reporter

        @wraps(original)
        def elapsed_time(event: Any, end_event: Any) -> Any:
            if not reporter.callbacks_suppressed:
                start, end = self.of(event), self.of(end_event)
                if start and end:
                    with reporter.locked_monitor() as monitor:
                        monitor.elapsed(start, end, reporter.sites.here())
            return original(event, end_event) if exact else self._generic_elapsed(event, end_event)

        return elapsed_time


def _handle(event: Any) -> int:
    """Return an event's handle; 0 before its first record."""
    handle = getattr(event, "cuda_event", None)
    return int(event.event_id if handle is None else handle)
