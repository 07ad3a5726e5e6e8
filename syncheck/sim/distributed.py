"""NCCL process groups without NCCL: gloo moves the bytes, and streams behave as with NCCL.

A collective called with `async_op=True` runs on a communication stream of its group, which first waits for the current
stream. `Work.wait()` makes the stream that is current at that time wait for the collective, not the host. A collective
without `async_op` runs on the current stream itself.

Source:
    torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp: `collective` (`asyncOp`), `WorkNCCL::synchronizeStream`,
    `stashed_for_allocator_safety_`, `barrier`; torch/csrc/distributed/c10d/Functional.cpp.
"""

import weakref
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

import torch

from syncheck.findings import Location
from syncheck.hb.ids import (
    BY_TORCH,
    UNKNOWN_SITE,
    Accesses,
    AllocationId,
    NamedKind,
    SiteId,
    StreamId,
    WaitCall,
)
from syncheck.instrument.collectives import calls, issue, plan_of, touched
from syncheck.instrument.plan import Plan, tensors_of
from syncheck.ranks import watchdog
from syncheck.semantics.collectives import POINT_TO_POINT, collective_name
from syncheck.semantics.copies import HOST_DEVICE
from syncheck.sim.autograd import Backward
from syncheck.sim.collective_arguments import (
    WRITTEN_ON_WAIT,
    averages_integers,
    clone_tensors,
    copy_results,
    gloo_arguments,
    group_name,
    pad_tensors,
    padded_size,
    returns_handle,
    work_in,
)
from syncheck.sim.deferral import Deferral
from syncheck.sim.delayed_collectives import DelayedCollectives
from syncheck.sim.exchange import CollectiveCall
from syncheck.sim.functional import FunctionalCollectives
from syncheck.sim.futures import Futures
from syncheck.sim.launches import Launches
from syncheck.sim.nccl_groups import NcclGroups
from syncheck.sim.runtime import Runtime
from syncheck.sim.started import StartedCollective

_MAX_STARTED = 4096
"""Maximum number of collectives not yet waited for whose tensors are kept alive, as NCCL does."""
_NEVER_DELAYED = frozenset("barrier recv_any_source_".split())
"""Operators that are never delayed by a schedule."""


class Distributed:
    """Runs collectives on virtual GPUs.

    Attributes:
        futures: tracks the futures of handles.
        functional: runs functional collectives.
        groups: the process groups for which the program requested NCCL.
        ddp_pending: allocation -> collective started by DDP's reducer in a backward pass. The reducer waits for it,
            unobserved, before it uses the result.
    """

    def __init__(
        self, runtime: Runtime, backward: Backward, launches: Launches, deferral: Deferral | None = None
    ) -> None:
        self._runtime = runtime
        self._backward = backward
        self._launches = launches
        self._memory = runtime.memory
        self._gpus = runtime.gpus
        self._streams: dict[tuple[str, int], StreamId] = {}
        self._started: OrderedDict[int, StartedCollective] = OrderedDict()
        # handles that were waited for, while they are alive: another stream may have to wait, too
        self._awaited: dict[int, tuple[weakref.ref[Any], StartedCollective]] = {}
        self._plans: dict[Any, Plan | None] = {}
        self._coalesced: list[Any] | None = None  # handles started since a coalescing manager was entered
        self._coalesced_with: dict[int, list[Any]] = {}  # the last handle of a coalescing manager -> the others
        self.futures = Futures(self, self._gpus)
        self.groups = NcclGroups()
        self.functional = FunctionalCollectives(self, runtime, launches)
        self._delayed = DelayedCollectives(runtime, deferral, self.groups) if deferral is not None else None
        launches.before_launch.append(self._join_before_launch)
        self.ddp_pending: dict[AllocationId, StartedCollective] = {}
        self.unobserved, self.idents = runtime.unmonitored, runtime.memory.idents
        self._reducer_collective: tuple[StartedCollective, frozenset[AllocationId]] | None = None

    # -- operators

    def plan(self, func: Any) -> Plan | None:
        """Return the plan of a collective, or None for any other operator."""
        if func not in self._plans:
            self._plans[func] = plan_of(func)
        return self._plans[func]

    def run(self, func: Any, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a collective. A collective on host tensors is left to gloo."""
        group = issue(func, args, kwargs, self._gpus.site(), self.location)
        with watchdog.waiting(collective_name(plan.name), group):
            return self._run(func, plan, args, kwargs, group)

    def _run(self, func: Any, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any], group: str) -> Any:
        tensors = touched(func, plan, args, kwargs)
        devices = {self._memory.device(tensor) for tensor, _ in tensors} - {HOST_DEVICE}
        if plan.base == "barrier":
            return self._barrier(func, plan, args, kwargs, group)
        if not devices:
            self._launches.host_access(plan.name, tensors)
            self.begin_pending(plan.name)
            return func(*args, **kwargs)
        device = min(devices)  # torch rejects tensors on several devices
        current = self._gpus.current_stream(device)
        is_async = returns_handle(func, args, kwargs)
        stream = self.stream(group_name(args), device) if is_async else current
        if stream != current:
            self._gpus.monitor.wait_stream(stream, current, UNKNOWN_SITE, BY_TORCH)
        if self._delayed is not None and self.can_be_delayed(plan):
            result, work = self._delayed.start(CollectiveCall(func, plan, args, kwargs, stream, group, is_async))
            self._note_coalesced(work)
        else:
            # DDP's reducer, which is C++ code, copies the results from its handle
            has_handle = is_async and (bool(calls.depth) or self._backward.is_running)
            result, work = self._call(func, plan, args, kwargs, has_handle=has_handle)
        self._launch(plan, tensors, stream)
        if is_async:
            self._register(plan, work, stream, [tensor for tensor, _ in tensors], group)
        return result

    def _call(
        self, func: Any, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any], *, has_handle: bool
    ) -> tuple[Any, Any]:
        """Run a collective with gloo, and return its result and its handle."""
        dtype = torch.float64 if averages_integers(plan, args, kwargs) else None
        size = padded_size(plan, args)
        uses_copies = size > 0 or dtype is not None or (has_handle and plan.base in WRITTEN_ON_WAIT)
        given, given_by_name = args, kwargs
        if size:
            given, given_by_name = pad_tensors(plan, args, kwargs, size)
        elif uses_copies:
            given, given_by_name = clone_tensors(plan, args, kwargs, dtype=dtype)
        for_gloo, named = gloo_arguments(plan, given, given_by_name, has_handle=has_handle)
        result = func(*self.groups.for_gpus(for_gloo), **named)
        work = work_in(result)
        self._note_coalesced(work)
        if plan.base in POINT_TO_POINT:
            return result, work  # a peer may still have to post its receive
        if isinstance(result, tuple):
            result = (args[0], *result[1:])  # the program's tensors, not those passed to gloo
        work.wait()  # the values are available immediately
        if uses_copies:
            tensors = tensors_of(plan, args, kwargs)
            weakref.finalize(
                work, list, [t for t, argument in tensors if argument.is_write]
            )  # a handle owns its outputs
            copy_results(plan, given, given_by_name, tensors)
        return result, work

    def _note_coalesced(self, work: Any) -> None:
        if self._coalesced is not None:
            self._coalesced.append(work)

    def can_be_delayed(self, plan: Plan) -> bool:
        """Return whether a schedule may delay a collective. If C++ code started it, its wait cannot be observed."""
        if self._delayed is None or self._runtime.is_capturing or not calls.depth:
            return False
        return plan.base not in _NEVER_DELAYED and "premul" not in calls.reduce

    def begin_pending(self, what: str) -> None:
        """Run everything that a schedule has delayed, because the next operation, `what`, may wait for other ranks."""
        if self._delayed is not None:
            self._delayed.begin_pending(what)

    def before_wait(self, work: Any) -> None:
        """Prepare for a host wait for a handle. A collective delayed by a schedule needs no other rank for that."""
        if self._delayed is not None and work not in self._delayed.handles:
            self._delayed.begin_pending("a wait for a collective")

    def before_use(self, tensors: Iterable[torch.Tensor]) -> None:
        """Wait for pending results that an operator uses, before it is submitted under a schedule."""
        if self._delayed is not None and (self.ddp_pending or self._delayed.receives.is_pending):
            idents = self.idents(tensors)
            self.join_ddp_pending(idents)
            self._delayed.receives.memory_used(idents)

    def leave(self) -> None:
        """Run everything that a schedule has delayed, before the program leaves its groups."""
        if self._delayed is not None:
            self._delayed.finish()

    def _register(self, plan: Plan, work: Any, stream: StreamId, tensors: list[torch.Tensor], group: str) -> None:
        if calls.depth:
            self._gpus.monitor.collective(stream, plan.name, self._gpus.site())
        if plan.base in POINT_TO_POINT:
            self.record(tensors, stream)
            tensors = []
        self._start(work, stream, tensors, group)

    def record(self, tensors: Iterable[torch.Tensor], stream: StreamId) -> None:
        """Allow tensors (of a message, of a future) to be freed before a stream has used them: `pointToPoint`."""
        for tensor in tensors:
            tag = self._memory.of(tensor)
            if tag is not None and tensor.numel():
                view = self._memory.view(tensor)
                self._gpus.monitor.record_stream(tag.ident, view, stream, UNKNOWN_SITE)

    def location(self, site: SiteId) -> Location:
        """Return the location of a call site."""
        return self._gpus.sites.location(site)

    def _launch(self, plan: Plan, tensors: Any, stream: StreamId) -> None:
        accesses = []
        for tensor, argument in tensors:
            tag = self._memory.of(tensor)
            if tag is not None and tensor.numel():
                accesses.append((tag.ident, self._memory.view(tensor), argument.is_write))
        if accesses:
            self._launches.launch(stream, plan.name, accesses)

    def _start(self, work: Any, stream: StreamId, tensors: list[torch.Tensor], group: str) -> None:
        started = self.record_end(work, stream, tensors, group)
        if calls.depth:
            self._started[id(work)] = started
            if len(self._started) > _MAX_STARTED:
                self._started.popitem(last=False)
            if self._delayed is not None:
                self._delayed.receives.attach_event(id(work), started.event)
        elif self._backward.is_running:
            self._reducer_collective = started, self.idents(tensors)
            self.add_ddp_pending(*self._reducer_collective)
        else:
            self.join(started)

    def add_ddp_pending(self, started: StartedCollective, idents: Iterable[AllocationId]) -> None:
        """During a backward pass, record that C++ code waits for a collective before it uses these allocations."""
        if self._backward.is_running:
            self._memory.alone.end()
            self.ddp_pending |= dict.fromkeys(idents, started)

    def record_end(
        self, work: Any, stream: StreamId, tensors: list[torch.Tensor], group: str = ""
    ) -> StartedCollective:
        """Record an event at the end of a newly launched collective."""
        started = StartedCollective(work, self._gpus.next_event(), stream, tensors, group)
        self._gpus.monitor.event(started.event, UNKNOWN_SITE, timing=False)
        self._gpus.monitor.record(started.event, stream, self._gpus.site())
        return started

    def stream(self, group: str, device: int) -> StreamId:
        """Return the communication stream of a group on a device."""
        known = self._streams.get((group, device))
        if known is None:
            known = self._streams[group, device] = self._gpus.new_stream(device, UNKNOWN_SITE)
            self._gpus.monitor.name(NamedKind.STREAM, known, "nccl" if group in {"", "0"} else f"nccl, group {group}")
        return known

    def _barrier(self, func: Any, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any], group: str) -> Any:
        """Run a barrier. The host waits for the current stream, either in the call or when it waits for the handle.

        Source:
            torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, `WorkNCCL::synchronizeInternal`, `isBarrierOp_`.
        """
        result = func(*args, **kwargs)
        work = work_in(result)
        work.wait()
        if not self.groups.is_for_gpu(func, args, kwargs):
            return result
        current = self._gpus.current_stream(self._gpus.thread.device)
        if not (calls.depth and returns_handle(func, args, kwargs)):
            self._gpus.monitor.sync_stream(current, self._gpus.site(), explicit=True)
            return result
        stream = self.stream(group_name(args), self._gpus.thread.device)
        self._gpus.monitor.wait_stream(stream, current, UNKNOWN_SITE, BY_TORCH)
        self._gpus.monitor.launch(stream, plan.name, (), self._gpus.site())
        self._gpus.monitor.collective(stream, plan.name, self._gpus.site())
        self._start(work, stream, [], group)
        self._started[id(work)].is_barrier = True
        return result

    # -- waits

    def join(self, started: StartedCollective) -> None:
        """Make the current stream wait for a collective, and release its tensors."""
        self._started.pop(id(started.work), None)
        if self._delayed is not None:
            self._delayed.receives.event_awaited(started.event)
        current = self._gpus.current_stream(self._gpus.device_of(started.stream))
        self._gpus.monitor.wait(started.event, current, self._gpus.site(), WaitCall.TORCH)
        if started.is_barrier:
            self._gpus.monitor.sync_stream(current, self._gpus.site(), explicit=True)
        started.tensors.clear()

    def join_ddp_pending(self, idents: Iterable[AllocationId] | None = None) -> None:
        """Join collectives started by C++ code: those on the given allocations, or all of them for None."""
        for ident in list(self.ddp_pending) if idents is None else idents:
            started = self.ddp_pending.pop(ident, None)
            if started is not None:
                self.join(started)

    def _join_before_launch(self, stream: StreamId, accesses: Accesses) -> None:
        """Join collectives that C++ code started on the memory of an operator that is about to be reported."""
        del stream
        if self.ddp_pending:
            self.join_ddp_pending(ident for ident, _, _ in accesses)

    def future(self, work: Any, future: Any) -> None:
        """Record that the program got the future of a handle."""
        started = self._started.get(id(work))
        if started is not None:
            self.futures.register(future, started, self.idents(started.tensors))

    def note_reducer_future(self, future: Any) -> None:
        """Record that the program got the future of the collective that DDP's reducer has just started.

        The collective runs after all work of the current stream. For a bucket that no operator has used yet, no
        collective was seen, as it is not known to be on a GPU.
        """
        current = self._gpus.current_stream(self._gpus.thread.device)
        started, idents = self._reducer_collective or (self.record_end(None, current, []), frozenset())
        self._reducer_collective = None
        self.futures.register(future, started, idents)

    def new_callback_end(self, started: StartedCollective) -> StartedCollective:
        """Return a `StartedCollective` for the end of a callback that runs after a collective, on its own stream."""
        device = self._gpus.device_of(started.stream)
        stream = self._gpus.new_stream(device, UNKNOWN_SITE)
        self._gpus.monitor.name(NamedKind.STREAM, stream, "callback")
        end = StartedCollective(None, self._gpus.next_event(), stream, [], started.group)
        self._gpus.monitor.event(end.event, UNKNOWN_SITE, timing=False)
        return end

    # -- coalescing

    def start_coalescing(self) -> None:
        """Start coalescing: collectives started from now on are waited for as a group."""
        self._coalesced = []

    def end_coalescing(self) -> Any:
        """Return the handle for all coalesced collectives, or None if the current stream has run all of them.

        Source:
            torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, `endCoalescing`.
        """
        works, self._coalesced = self._coalesced or [], None
        pending = [work for work in works if id(work) in self._started]
        if not pending:
            return None
        self._coalesced_with[id(pending[-1])] = pending[:-1]
        return pending[-1]

    def coalesced_siblings(self, work: Any) -> list[Any]:
        """Return the other handles that a coalesced handle stands for."""
        return self._coalesced_with.pop(id(work), [])

    def handle_wait(self, work: Any, *, is_blocking: bool = False) -> None:
        """Handle a wait of the program for a handle. If `is_blocking`, the host waits, too."""
        known = self._awaited.get(id(work))
        started = self._started.get(id(work)) if known is None else known[1]
        if started is None:
            return
        self.join(started)
        if is_blocking:
            self._gpus.monitor.sync_event(started.event, self._gpus.site())
        key, started.work = id(work), None
        self._awaited[key] = (weakref.ref(work, lambda _: self._awaited.pop(key, None)), started)

    def is_awaited(self, work: Any) -> bool:
        """Return whether the program has already waited for a handle."""
        return id(work) in self._awaited

    def group_of(self, work: Any) -> str:
        """Return the name of a handle's group in the ranks' records, or "" if it is unknown."""
        started = self._started.get(id(work))
        return started.group if started is not None else ""

    def is_completed(self, work: Any) -> bool:
        """Return whether a handle's work is complete. The first query about pending work returns False."""
        started = self._started.get(id(work))
        if started is None or not self._gpus.monitor.is_pending(NamedKind.EVENT, started.event):
            return True
        if not started.was_queried:
            started.was_queried = True
            return False
        self._gpus.monitor.sync_event(started.event, self._gpus.site())
        return True
