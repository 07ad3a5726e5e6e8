"""Events: which object and which handle is which event, and the hooks on their methods."""

import threading
import weakref
from collections import deque
from collections.abc import Callable
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

import torch

from syncheck.cuda import devices
from syncheck.instrument.patching import Patches

if TYPE_CHECKING:
    from syncheck.cuda.backend import Cuda

LOOKED_UP = "_syncheck_looked_up"
"""Attribute of a stream object: the function that the program called to get it."""
_IDENT = "_syncheck_event"


class _Life:
    """Lives in an object's dictionary and as long as that: streams and events of torch do not call weak references.

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
    """Call a method, if its owner is still there, when a stream or an event object is gone."""
    thing.__dict__["_syncheck_life"] = _Life(action, args)


class Events:
    """Knows every event, by object where Python made it and by handle where C++ did."""

    def __init__(self, cuda: "Cuda") -> None:
        self._cuda = cuda
        self._by_handle: dict[int, int] = {}
        self._handles: dict[int, int] = {}  # events that Python objects stand for -> handle, once recorded
        self._gone: deque[tuple[int, bool]] = deque()  # events, with timing or not, that are gone
        self._alive: set[int] = set()  # events that Python objects stand for
        self._timing: dict[int, bool] = {}

    # -- identity

    def is_known(self, handle: int) -> bool:
        """Tell whether an event was seen since the check began."""
        return handle in self._by_handle

    def of_handle(self, handle: int) -> int:
        """Return the event with a handle, announced at first sight."""
        known = self._by_handle.get(handle)
        if known is None:
            known = self._by_handle[handle] = self._cuda.next_id("event")
            with self._cuda.locked_monitor() as monitor:
                monitor.event(known, 0, timing=False)
        return known

    def deleted(self, handle: int) -> None:
        """A handle is gone, and may be used for another event. Called at any moment."""
        ident = self._by_handle.pop(handle, None)
        if ident is not None and ident not in self._alive:
            self._gone.append((ident, False))

    def flush(self) -> None:
        """Tell the monitor of events that are gone, and that no callback still to be told speaks of."""
        if self._cuda.operators.n_inner:
            return
        monitor = self._cuda.monitor
        while self._gone:
            ident, timing = self._gone.popleft()
            if timing:
                monitor.object_destroyed("timing event", ident)
            monitor.drop_event(ident)

    def made(self, event: Any, *, timing: bool) -> int:
        """Announce an event object that the program made."""
        cuda = self._cuda
        ident = cuda.next_id("event")
        with cuda.locked_monitor() as monitor:
            site = cuda.sites.here()
            monitor.event(ident, site, timing=timing)
            cuda.name_new("event", ident, site)
            if timing:
                monitor.object_created("timing event", ident, site)
        setattr(event, _IDENT, (cuda.token, ident))
        self._timing[ident] = timing

        self._alive.add(ident)
        on_finalize(event, weakref.WeakMethod(self._forget), ident, timing)
        return ident

    def _forget(self, ident: int, timing: bool) -> None:  # noqa: FBT001  called by position
        self._alive.discard(ident)
        self._timing.pop(ident, None)
        handle = self._handles.pop(ident, 0)
        if self._by_handle.get(handle) == ident:
            del self._by_handle[handle]
        self._gone.append((ident, timing))

    def of(self, event: Any) -> int:
        """Return the event of an object; 0 for one that was recorded before the check began."""
        owner, ident = getattr(event, _IDENT, (None, 0))
        if owner is self._cuda.token:  # not an earlier check
            return int(ident)
        handle = _handle(event)
        if handle:
            return self._by_handle.get(handle, 0)
        return self.made(event, timing=False)

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
        cuda = self._cuda

        @wraps(original)
        def new(cls: Any, *args: Any, **kwargs: Any) -> Any:
            event = original(cls, *args, **kwargs)
            if not cuda.callbacks_suppressed:
                timing = kwargs.get("enable_timing", bool(args) and args[0] is True)
                self.made(event, timing=bool(timing))
            return event

        return staticmethod(new)

    def _record(self, original: Any) -> Any:
        cuda = self._cuda

        @wraps(original)
        def record(event: Any, stream: Any = None) -> None:
            if cuda.callbacks_suppressed:
                original(event, stream)
                return
            ident = self.of(event) or self.made(event, timing=True)
            with cuda.suppressed():
                original(event, stream)
            target = cuda.stream_of(stream)
            handle = self._handles[ident] = _handle(event)
            self._by_handle[handle] = ident
            looked_up = getattr(stream, LOOKED_UP, "")
            with cuda.locked_monitor() as monitor:
                current = cuda.streams.current(cuda.streams.device_of(target))
                monitor.record(ident, target, cuda.sites.here(), looked_up, current)

        return record

    def _wait(self, original: Any) -> Any:
        @wraps(original)
        def wait(event: Any, stream: Any = None) -> None:
            self.wait(event, stream, "event", original)

        return wait

    def wait(self, event: Any, stream: Any, via: str, original: Any) -> None:
        """Make a stream wait for an event."""
        cuda = self._cuda
        if cuda.callbacks_suppressed:
            original(event, stream)
            return
        ident = self.of(event)
        with cuda.suppressed():
            original(event, stream)
        if not ident:
            return
        target = cuda.stream_of(stream)
        looked_up = getattr(stream, LOOKED_UP, "")
        with cuda.locked_monitor() as monitor:
            current = cuda.streams.current(cuda.streams.device_of(target))
            monitor.wait(ident, target, cuda.sites.here(), via, looked_up, current)

    def _query(self, original: Any) -> Any:
        cuda = self._cuda

        @wraps(original)
        def query(event: Any) -> Any:
            done = original(event)
            if done and not cuda.callbacks_suppressed and _handle(event):
                ident = self.of(event)
                if ident:
                    with cuda.locked_monitor() as monitor:
                        monitor.sync_event(ident, cuda.sites.here())
            return done

        return query

    def _synchronize(self, original: Any) -> Any:
        cuda = self._cuda

        @wraps(original)
        def synchronize(event: Any) -> None:
            if cuda.callbacks_suppressed:
                original(event)
                return
            ident = self.of(event)
            is_ours = threading.get_ident() in cuda.captures
            if is_ours:
                self._refuse_in_capture()
            try:
                with cuda.suppressed():
                    original(event)
            except RuntimeError as error:
                if (
                    cuda.captures and not is_ours and "captur" in str(error)
                ):  # whether another thread may wait is up to the mode of the capture
                    self._refuse_in_capture()
                raise
            if ident:
                with cuda.locked_monitor() as monitor:
                    monitor.sync_event(ident, cuda.sites.here())

        return synchronize

    def _refuse_in_capture(self) -> None:
        with self._cuda.locked_monitor() as monitor:
            monitor.sync_in_capture("Event.synchronize()", self._cuda.sites.here())

    def _generic_elapsed(self, event: Any, end_event: Any) -> float:
        """Return the milliseconds between events of the generic class, whose own method refuses subclasses.

        Source:
            torch/csrc/Event.cpp, `THPEvent_elapsed_time`; aten/src/ATen/cuda/CUDAEvent.h for the errors.
        """
        if not (self._timing.get(self.of(event)) and self._timing.get(self.of(end_event))):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if not (_handle(event) and _handle(end_event)):
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        elapsed = devices.milliseconds(_handle(event), _handle(end_event))
        if elapsed is None:
            raise RuntimeError("Both events must be completed before calculating elapsed time.")
        return elapsed

    def _elapsed_time(self, original: Any, *, exact: bool) -> Any:
        cuda = self._cuda

        @wraps(original)
        def elapsed_time(event: Any, end_event: Any) -> Any:
            if not cuda.callbacks_suppressed:
                start, end = self.of(event), self.of(end_event)
                if start and end:
                    with cuda.locked_monitor() as monitor:
                        monitor.elapsed(start, end, cuda.sites.here())
            return original(event, end_event) if exact else self._generic_elapsed(event, end_event)

        return elapsed_time


def _handle(event: Any) -> int:
    """Return an event's handle; 0 before its first record."""
    handle = getattr(event, "cuda_event", None)
    return int(event.event_id if handle is None else handle)
