"""Collectives on real GPUs: reports the parts of NCCL's behavior that torch's callbacks do not cover."""

import weakref
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

from syncheck.cuda import devices
from syncheck.cuda.callback_order import Callback, Kind
from syncheck.cuda.captures import Captures
from syncheck.cuda.dispatch_plan import DispatchPlan
from syncheck.cuda.reporter import Reporter
from syncheck.cuda.streams import Streams
from syncheck.hb.ids import NO_EVENT, UNKNOWN_SITE, Access, EventId, NamedKind, StreamId
from syncheck.instrument import collectives
from syncheck.instrument.c10d import Work
from syncheck.instrument.collectives import calls, hook_group_methods, hook_init_process_group
from syncheck.instrument.patching import Patches
from syncheck.instrument.torch_internals import new_plain_event
from syncheck.ranks import watchdog
from syncheck.semantics.collectives import POINT_TO_POINT, makes_host_wait


class Collectives:
    """Adds the missing details of a collective that has just been launched."""

    def __init__(self, reporter: Reporter, streams: Streams, captures: Captures) -> None:
        self._reporter = reporter
        self._streams = streams
        self._captures = captures
        self._named: set[StreamId] = set()

    def issuing(self, func: Any) -> tuple[Callable[[Any, Any], bool], None]:
        """Return a special entry whose predicate records a collective, for comparison of the ranks, before it runs."""

        def issue(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
            self.issue(func, args, kwargs)
            return False

        return issue, None

    def issue(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Record a collective that is about to run, for comparison of the ranks."""
        reporter = self._reporter
        if reporter.is_checking:
            collectives.issue(func, args, kwargs, reporter.site(), reporter.sites.location)

    def launched(
        self,
        dispatch: DispatchPlan,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        stream: StreamId,
        device: int,
        accesses: list[Access],
        inner: list[Callback],
    ) -> None:
        """Report a collective that has been launched on a stream, with callbacks inside.

        Source:
            torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, `pointToPoint`: it calls `recordStream` for the tensor of
            a message, so that no wait is needed before the tensor is freed.
        """
        reporter, name = self._reporter, dispatch.plan.name
        has_own_stream = stream != self._streams.current(device)
        group = (
            collectives.group_name(dispatch.func, args, kwargs) if has_own_stream or watchdog.active is not None else ""
        )
        with reporter.locked_monitor() as monitor:
            if has_own_stream and stream not in self._named:
                self._named.add(stream)
                monitor.name(NamedKind.STREAM, stream, "nccl" if group in {"", "0"} else f"nccl, group {group}")
            if has_own_stream and dispatch.plan.base in POINT_TO_POINT:
                for allocation, view, _ in accesses:
                    monitor.record_stream(allocation, view, stream, UNKNOWN_SITE)
            if has_own_stream and collectives.returns_handle(name):
                monitor.collective(stream, name, reporter.site())
        calls.event = next((e.event for e in inner if e.kind is Kind.RECORD and e.stream == stream), NO_EVENT)
        self._monitor(group, stream, device)

    def monitor(self, func: Any, args: tuple[Any, ...], stream: StreamId, device: int) -> None:
        """Let the watchdog wait for a collective that has been launched and reported."""
        self._monitor(collectives.group_name(func, args, {}), stream, device)

    def _monitor(self, group: str, stream: StreamId, device: int) -> None:
        if watchdog.is_monitored(group) and not self._captures:
            watchdog.started(group, self._probe(stream, device))

    def _probe(self, stream: StreamId, device: int) -> Callable[[], bool]:
        """Return a function that checks whether a stream has reached its current position."""
        with self._reporter.suppressed():
            event = new_plain_event()
            handle = self._streams.handle_of(stream)
            # ExternalStream would create a new stream for handle 0
            event.record(devices.cuda.ExternalStream(handle, device) if handle else torch.cuda.default_stream(device))
        is_complete: Callable[[], bool] = event.query
        return is_complete


class Handles:
    """Tracks the end events of collectives whose work handles the program holds."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._events: dict[int, tuple[Any, EventId]] = {}

    def add(self, work: Any, event: EventId) -> None:
        """Store the end event of a work handle that was returned to the program."""
        key = id(work)
        self._events[key] = (weakref.ref(work, lambda _: self._events.pop(key, None)), event)

    def install(self, patches: Patches) -> None:
        """Hook `Work.is_completed`, which orders the host if it returns True, and waits that block the host."""
        hook_group_methods(patches, self.add)
        hook_init_process_group(patches)
        original_completed, original_wait = Work.is_completed, Work.wait

        @wraps(original_completed)
        def is_completed(work: Any) -> bool:
            done = bool(original_completed(work))
            if done:
                self._report_complete(work)
            return done

        def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
            result = original_wait(work, *args, **kwargs)
            if makes_host_wait(args, kwargs):
                self._report_complete(work)
            return result

        patches.set(Work, "is_completed", is_completed)
        patches.set(Work, "wait", wraps(original_wait)(wait))

    def _report_complete(self, work: Any) -> None:
        """Report that a collective is complete for the host."""
        reporter, known = self._reporter, self._events.get(id(work))
        if known is not None and not reporter.callbacks_suppressed:
            with reporter.locked_monitor() as monitor:
                monitor.sync_event(known[1], reporter.sites.here())
