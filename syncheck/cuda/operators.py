"""Logs every operator: its reads and writes, on the stream that it ran on.

`log` is the hot path: a training step calls it thousands of times, and the user pays for each microsecond. It therefore
looks up addresses instead of querying objects, and takes no lock unless it has to.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch

from syncheck.cuda import devices
from syncheck.cuda.callback_order import Callback, Kind, PendingCallbacks, work_index, working_stream
from syncheck.cuda.collectives import Collectives
from syncheck.cuda.copies import Copies
from syncheck.cuda.dispatch_plan import DispatchPlan, HigherOrder
from syncheck.cuda.host import HostMemory
from syncheck.cuda.launches import Launches
from syncheck.cuda.library import DescribedOperators
from syncheck.cuda.memory import Memory, dense_parts
from syncheck.cuda.reporter import Reporter
from syncheck.cuda.streams import Streams
from syncheck.cuda.thread_contexts import ThreadContexts
from syncheck.hb.ids import NO_EVENT, Access, Context, SiteId, StreamId
from syncheck.instrument.collectives import plan_of as collective_plan_of
from syncheck.instrument.collectives import touched
from syncheck.instrument.plan import Plan, plan_of, tensors_in, tensors_of
from syncheck.instrument.tensor_facts import TorchFacts
from syncheck.instrument.torch_internals import (
    OpOverload,
    data_ptr,
    is_contiguous,
    storage_key_of,
)
from syncheck.semantics.collectives import NAMESPACES
from syncheck.semantics.waits import HostWait, host_wait
from syncheck.source.frames import frame_at

_LONG = 8
"""Lists of at least this many tensors are cached."""

_NUMBERS = frozenset({bool, int, float, complex})
"""Types of numbers that may stand in for a tensor argument."""
_FACTS = TorchFacts(lambda tensor: bool(tensor.is_cuda))


class Parts(NamedTuple):
    """Handlers of operators that need special treatment."""

    copies: Copies
    collectives: Collectives
    described: DescribedOperators


class Operators:
    """Logs operators.

    Attributes:
        plans: id of an operator -> its plan for the hot path.
        on_plan: called with each new plan.
        on_composite_tensors: called once tensors are seen that consist of several parts, such as sparse ones.
    """

    def __init__(
        self,
        reporter: Reporter,
        streams: Streams,
        threads: ThreadContexts,
        memory: Memory,
        host: HostMemory,
        pending_callbacks: PendingCallbacks,
        launches: Launches,
        parts: Parts,
    ) -> None:
        self._reporter = reporter
        self._described = parts.described
        self._streams = streams
        self._threads = threads
        self._memory = memory
        self._host = host
        self._pending_callbacks = pending_callbacks
        self._launches = launches
        self._copies = parts.copies
        self._collectives = parts.collectives
        self.plans: dict[int, DispatchPlan | HigherOrder] = {}
        self._listens_always = False
        self.on_plan: Callable[[DispatchPlan], None] = lambda _: None
        self.on_composite_tensors: Callable[[], None] = lambda: None

    def plan(self, func: Any) -> DispatchPlan | HigherOrder:
        """Derive an operator's plan and cache it."""
        if not isinstance(func, OpOverload):
            other = self.plans[id(func)] = HigherOrder(func)
            return other
        plan = collective_plan_of(func) or plan_of(func)
        is_collective = func.namespace in NAMESPACES
        special: Any = self._collectives.issuing(func) if is_collective else self._copies.specials.get(plan.base)
        effect = plan.effect
        if effect is not None:
            special = self._described.special(effect)
        dispatch = self.plans[id(func)] = DispatchPlan(func, plan, special)
        if "sparse" in plan.base or "nested" in plan.base:
            self._listen_always()
        dispatch.listens |= self._listens_always
        self.on_plan(dispatch)
        return dispatch

    def _listen_always(self) -> None:
        """Listen to all operators: with composite tensors, operators that are silent on others may wait for sizes."""
        self._listens_always = True
        self.on_composite_tensors()
        for dispatch in list(self.plans.values()):
            dispatch.listens = True

    # -- the hot path

    def log(self, dispatch: DispatchPlan, args: tuple[Any, ...], kwargs: dict[str, Any] | None, result: Any) -> None:  # noqa: C901, PLR0912, PLR0915  the hot path: see the module docstring
        """Log an operator that has just run in the calling frame."""
        reporter, streams, memory = self._reporter, self._streams, self._memory
        live, buffers = memory.live, self._host.buffers
        plan = dispatch.plan
        if plan.synchronizes and reporter.before_wait:
            self._host_waits(plan, args, kwargs or {})
        if memory.dead:
            memory.release_dead()
        frame = frame_at(1)
        pending = self._pending_callbacks.by_frame.pop(id(frame), None) if self._pending_callbacks.by_frame else None
        if plan.synchronizes and not (pending or buffers or getattr(args[0], "is_cuda", False)):
            return
        accesses: list[Access] = []
        device = -1
        is_plain = not (pending or plan.synchronizes)
        try:
            for position, name, is_list, is_write in dispatch.arguments if is_plain else ():
                value = args[position] if position < len(args) else (kwargs.get(name) if kwargs else None)
                if value is None:
                    continue
                if is_list and len(value) >= _LONG:
                    known = self._cached_accesses(value, is_write=is_write)
                    if known is not None:
                        accesses += known
                        if device < 0:
                            device = value[0].get_device()
                        continue
                for tensor in value if is_list else (value,):
                    try:
                        entry = live.get(data_ptr(tensor))
                    except (TypeError, SystemError):  # SystemError under cProfile in Python 3.12
                        if type(tensor) in _NUMBERS:  # as in `x + 1`
                            continue
                        raise
                    if entry is None:
                        if not tensor.is_cuda:
                            is_plain &= not buffers or storage_key_of(tensor) not in buffers
                            continue
                        entry = memory.find(tensor)
                        if entry is None:  # empty
                            continue
                    key = tensor.nbytes if is_contiguous(tensor) else (tensor.shape, tensor.stride(), tensor.dtype)
                    view = entry.views.get(key)
                    if view is None:
                        view = memory.new_view(entry, tensor, key)
                    accesses.append((entry.ident, view, is_write))
                    if device < 0:
                        device = tensor.get_device()
            if dispatch.has_rows and accesses:
                accesses[0] = memory.rows_of(args[0], accesses[0])
        except (RuntimeError, TypeError, AttributeError):  # no storage, or None in a list of optional tensors
            is_plain = False
        if not is_plain:
            self.log_slowly(dispatch, args, kwargs or {}, result, pending or [])
            self._pending_callbacks.count -= len(pending or ())
            return
        results: Any = ()
        if dispatch.fresh:
            if isinstance(result, torch.Tensor):
                results = (result,)
            else:
                results = [t for t in result if isinstance(t, torch.Tensor)] if dispatch.is_flat else tensors_in(result)
            if device < 0:
                device = next((tensor.get_device() for tensor in results if tensor.is_cuda), -1)
        if device < 0:
            return
        handle = devices.raw_stream(device)
        stream = streams.by_handle[device].get(handle) or streams.of(device, handle)
        site = reporter.sites.capture_innermost(frame.f_back, reporter.backward_site)
        for tensor in results:
            try:
                address = data_ptr(tensor)
            except RuntimeError:  # sparse
                accesses += self._register_results(plan, [tensor])
                continue
            if not address or not tensor.is_cuda:
                continue
            storage = tensor.untyped_storage()
            if address in live and memory.is_known(storage, address):
                continue
            if tensor.storage_offset():  # one of several results in the same block
                accesses += memory.begin_inside(tensor, stream, site)
                continue
            entry = memory.begin(storage, address, storage.nbytes(), stream, site)
            if plan.touches:
                n_bytes = tensor.nbytes  # a new tensor fills its storage, or the beginning of it
                view = entry.views.get(n_bytes)
                if view is None:
                    view = memory.new_view(entry, tensor, n_bytes)
                accesses.append((entry.ident, view, True))
        if not accesses:
            return
        sole = streams.sole_stream
        if (stream == sole or (sole >= 0 and streams.used(stream))) and not self._threads.n_checked_contexts:
            if reporter.call_buffer.launch(stream, plan.name, accesses, site):  # nothing to race with
                reporter.flush_calls()
            return
        with reporter.lock:
            if reporter.backward_site:
                self._launches.protect_gradients(stream, accesses)
            memory.used(stream, accesses)
            context = (
                self._context(dispatch, kwargs, stream, device, site) if self._threads.n_checked_contexts else None
            )
            reporter.monitor.launch(stream, plan.name, accesses, site, context)
            if not memory.shares_all:
                memory.owners.add(reporter.call_buffer.monitor, stream, accesses, memory.homes)
        if reporter.findings.new:
            reporter.on_findings([*(tensor for tensor, _ in tensors_of(plan, args, kwargs or {})), *results])

    def _cached_accesses(self, tensors: Any, *, is_write: bool) -> list[Access] | None:
        """Return the accesses to a long list of tensors from the cache: an optimizer passes the same list each step.

        The cached views are valid if the addresses are the same and none of the memory has been freed in between.
        """
        addresses = tuple(map(data_ptr, tensors))
        known = self._memory.lists.get(addresses)
        if known is None or known.n_bytes != (tensors[0].nbytes, tensors[-1].nbytes):
            known = self._memory.remember(addresses, tensors)
            if known is None:
                return None
        return known.writes if is_write else known.reads

    def _context(
        self, dispatch: DispatchPlan, kwargs: dict[str, Any] | None, stream: StreamId, device: int, site: SiteId
    ) -> Context | None:
        """Return the context of an operator in a thread that has something to report."""
        wanted = kwargs.get("device") if kwargs and dispatch.plan.has_device else None
        if wanted is not None and wanted.index is None:
            self._threads.state.implicit_device = True
        return self._threads.context(stream, device, -1, site)

    # -- the slow path

    def log_slowly(
        self,
        dispatch: DispatchPlan,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        result: Any,
        callbacks: list[Callback],
    ) -> None:
        """Log an operator that synchronizes, has callbacks, or has tensors in pinned memory or without storage."""
        streams, plan = self._streams, dispatch.plan
        is_collective = dispatch.func.namespace in NAMESPACES
        find = partial(touched, dispatch.func) if is_collective else tensors_of
        tensors = find(plan, args, kwargs) if plan.touches else []
        results = tensors_in(result) if dispatch.fresh else []
        if any(tensor.layout is not torch.strided or tensor.is_nested for tensor, _ in tensors):
            self._listen_always()
        parts = [
            (part, argument.is_write)
            for tensor, argument in tensors
            if argument.is_read or argument.is_write
            for part in dense_parts(tensor)
        ]
        device = next((t.get_device() for t, _ in parts if t.is_cuda), -1)
        if device < 0:
            device = next((part.get_device() for t in results for part in dense_parts(t) if part.is_cuda), -1)
        self._touch_host(plan, parts)
        if device < 0:
            self._launches.replay_callbacks(callbacks)
            return
        stream = streams.current(device)
        if callbacks:
            stream = working_stream(callbacks, stream, waits_first=is_collective)
        accesses = [a for t, is_write in parts if (a := self._memory.access(t, is_write=is_write))]
        if dispatch.has_rows and accesses and parts[0][0] is tensors[0][0]:  # a sparse tensor is touched as a whole
            accesses[0] = self._memory.rows_of(tensors[0][0], accesses[0])
        made_accesses = self._register_results(plan, results)
        wait = host_wait(plan.base, args, kwargs, _FACTS)
        self._submit(plan, wait, stream, device, accesses, made_accesses, callbacks, [t for t, _ in tensors] + results)
        if is_collective:
            self._collectives.launched(dispatch, args, kwargs, stream, device, accesses, callbacks)

    def log_after_run(
        self, operator: str, inputs: list[tuple[torch.Tensor, bool]], results: list[torch.Tensor], *, fills: bool
    ) -> None:
        """Log an operator that has already run on the current stream.

        Args:
            operator: the operator's name.
            inputs: the GPU tensors passed to it, and whether it wrote them.
            results: its new results.
            fills: whether it writes its new results.
        """
        accesses = [a for tensor, is_write in inputs if (a := self._memory.access(tensor, is_write=is_write))]
        writes = self._memory.begin_results(results)
        accesses += writes if fills else []
        tensors = [tensor for tensor, _ in inputs] + [tensor for tensor in results if tensor.is_cuda]
        if tensors:
            device = tensors[0].get_device()
            self._launches.launch(operator, self._streams.current(device), device, accesses, tensors)

    def _host_waits(self, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Report the stream that the host waited for in an operator, if it did wait."""
        if getattr(args[0], "is_cuda", False) and host_wait(plan.base, args, kwargs, _FACTS) is not HostWait.NEVER:
            stream = self._streams.current(args[0].get_device())
            for act in self._reporter.before_wait:
                act(stream)

    def _touch_host(self, plan: Plan, parts: list[tuple[torch.Tensor, bool]]) -> None:
        host = self._host
        if host.buffers:
            accesses = [a for t, is_write in parts if not t.is_cuda and (a := host.access(t, is_write=is_write))]
            if accesses:
                host.touched(plan.name, accesses)

    def _register_results(self, plan: Plan, results: list[torch.Tensor]) -> list[Access]:
        """Announce new results; return the writes that fill them."""
        writes = self._memory.begin_results(results)
        return writes if plan.touches else []

    def _submit(
        self,
        plan: Plan,
        wait: HostWait,
        stream: StreamId,
        device: int,
        accesses: list[Access],
        initial_writes: list[Access],
        callbacks: list[Callback],
        tensors: list[torch.Tensor],
    ) -> None:
        """Report the launch at its place among the callbacks that occurred while the operator ran.

        If the host waits for a size or a number, the kernel comes after the wait.
        """
        launches = self._launches
        syncs = [index for index, callback in enumerate(callbacks) if callback.kind is Kind.SYNC_STREAM]
        if wait is not HostWait.NEVER and not syncs:
            syncs = [len(callbacks)]
            callbacks = [*callbacks, Callback(Kind.SYNC_STREAM, NO_EVENT, stream)]
        if syncs and wait is HostWait.BEFORE:
            launches.replay_callbacks(callbacks[: syncs[0]])
            launches.launch(plan.name, stream, device, [a for a in accesses if not a[2]], tensors)
            launches.replay_callbacks(callbacks[syncs[0] :])
            launches.launch(plan.name, stream, device, accesses + initial_writes, tensors)
            return
        split = work_index(callbacks, stream)
        launches.replay_callbacks(callbacks[:split])
        launches.launch(plan.name, stream, device, accesses + initial_writes, tensors)
        launches.replay_callbacks(callbacks[split:])
