"""Records, in C++, the operators that cannot race; the dispatch mode sees all others.

`native/recorder.cpp` is the other half, and `native/trace.cpp` suppresses unneeded callbacks from torch into Python.
In threads without Python frames, such as those of a backward pass, the extension also records events, and collectives
whose memory is used in order.

The extension does the work of `Operators.log` for an operator that neither waits nor records an event, if its stream is
the only one that has used its memory so far, or has the memory to itself again. The recorded calls enter the call
buffer in order: before any other call is added, and before the monitor is queried.

Memory that the extension sees first is entered into the table of addresses when the mode encounters it. Until then, its
free goes unnoticed, which is harmless: the memory returns to the only stream that has used it.
"""

import weakref
from collections.abc import Callable
from enum import IntEnum
from types import FrameType
from typing import Any

import torch

from syncheck.cuda.callback_order import Callback
from syncheck.cuda.callback_order import Kind as CallbackKind
from syncheck.cuda.collectives import Collectives
from syncheck.cuda.copies import Copies
from syncheck.cuda.dispatch_plan import DispatchPlan
from syncheck.cuda.events import Events
from syncheck.cuda.gpu_trace import GpuTrace
from syncheck.cuda.host import HostMemory
from syncheck.cuda.launches import Launches
from syncheck.cuda.memory import Memory
from syncheck.cuda.operators import Operators
from syncheck.cuda.reporter import Reporter
from syncheck.cuda.streams import NOT_SOLE, Streams
from syncheck.cuda.thread_contexts import ThreadContexts
from syncheck.cuda.waiting_calls import WaitingCalls
from syncheck.filters import ignore_block
from syncheck.hb.ids import EventId, SiteId, StreamId, WaitCall
from syncheck.instrument.gradients import Gradients
from syncheck.instrument.sites import SiteTable
from syncheck.instrument.torch_internals import schema_of, storage_key
from syncheck.ranks import watchdog, writer


class Kind(IntEnum):
    """Condition under which the native recorder handles an operator; same as `Kind` in state.h."""

    ORDINARY = 0
    ITEM = 1
    TO_COPY = 2
    COPY = 3
    FOREACH_COPY = 4
    COMPOSITE = 5
    COLLECTIVE = 6


_KINDS = {
    "_local_scalar_dense": Kind.ITEM,
    "_to_copy": Kind.TO_COPY,
    "copy_": Kind.COPY,
    "_foreach_copy_": Kind.FOREACH_COPY,
}


_IN_PLACE = frozenset({"allreduce_", "allreduce_coalesced_", "broadcast_"})
"""The collectives that C++ code of torch issues: those of DDP."""

_Arguments = Callable[[], tuple[Any, ...]]


class Callbacks:
    """Callbacks from the extension into Python, some of them methods of others; the extension holds the GIL."""

    by_torch = WaitCall.TORCH

    def __init__(
        self,
        reporter: Reporter,
        streams: Streams,
        memory: Memory,
        events: Events,
        operators: Operators,
        collectives: Collectives,
        gradients: Gradients,
    ) -> None:
        self._reporter = reporter
        self._sites: SiteTable = reporter.sites
        self._memory = memory
        self._streams = streams
        self._operators = operators
        self._collectives = collectives
        self._gradients = gradients
        self.new_event = events.add
        self.is_user_code = reporter.sites.is_user_code  # keeps a reference to each code object
        self.current_stream, self.flush = streams.current, reporter.flush_calls
        self.extent, self.view = memory.extent, memory.exact_view

    def site(self, frame: FrameType) -> SiteId:
        """Return the call site whose innermost frame is `frame`."""
        return self._sites.capture_innermost(frame, self._reporter.backward_site)

    def block_of(self, tensor: torch.Tensor) -> tuple[int, int]:
        """Return the allocation of a GPU tensor, and the only stream that may use it unchecked.

        The allocation is 0 if the tensor has no memory, and the stream is negative if there is no such stream.
        """
        memory = self._memory
        access = memory.current_access(tensor)
        if access is None:
            return 0, 0
        home = memory.homes.get(access[0])
        return access[0], memory.owners[access[0]] if home is None else home

    def stream(self, device: int, handle: int) -> StreamId:
        """Return the stream with a handle, which C++ code uses."""
        return self._streams.of(device, handle, is_created_in_cpp=True)

    def passed_on(self, tensor: torch.Tensor) -> bool:
        """Forget the stream of a tensor's memory, as the extension follows it from now on; return False if it must not.

        Gradients that cross streams in a backward pass are left to the mode.
        """
        access = self._memory.current_access(tensor)
        if access is None or self._gradients.is_from_this_pass(access[0]):
            return False
        self._memory.homes.pop(access[0], None)
        self._memory.owners.forget(access[0])
        return True

    def issue(self, func: Any, arguments: _Arguments) -> None:
        """Record a collective that is about to run, for comparison of the ranks."""
        if writer.current() is not None:
            self._collectives.issue(func, arguments(), {})

    def issued(self, func: Any, arguments: _Arguments, stream: StreamId, device: int) -> None:
        """Let the watchdog wait for a collective that the extension has recorded."""
        if watchdog.active is not None:
            self._collectives.monitor(func, arguments(), stream, device)

    def log_collective(
        self, func: Any, arguments: _Arguments, results: tuple[Any, ...], callbacks: list[tuple[int, EventId, StreamId]]
    ) -> None:
        """Log a collective that the extension ran but cannot record.

        Args:
            func: the operator.
            arguments: returns its arguments.
            results: its results.
            callbacks: (kind, event, stream) of the callbacks that occurred while it ran.
        """
        if self._reporter.is_checking:
            inner = [Callback(CallbackKind(kind), event, stream) for kind, event, stream in callbacks]
            dispatch = self._operators.plans[id(func)]
            self._operators.log_slowly(dispatch, arguments(), {}, results, inner)  # type: ignore[arg-type]  # not higher-order

    def drop_stale(self, address: int) -> None:
        """Drop a stale entry at an address that now holds new memory."""
        entry = self._memory.live.get(address)
        if entry is not None:
            self._memory.freed(address - entry.offset)

    def failed(self, operator: str, text: str) -> None:
        """Report that an operator could not be recorded."""
        self._reporter.report_failure(operator, RuntimeError(text))


class _NoExtension:
    """Stands in for the extension while it works for another check; records nothing."""

    def has_calls(self) -> bool:
        return False

    def unknown_storages(self) -> list[torch.UntypedStorage]:
        return []

    def __getattr__(self, name: str) -> Callable[..., None]:
        return _ignore


def _ignore(*arguments: object) -> None:
    del arguments


_attached: "weakref.ref[NativeRecorder] | None" = None
"""The recorder that the extension currently works for: there is one extension per process, one recorder per check."""


class NativeRecorder:
    """Keeps the extension in sync with the parts of the backend.

    Args:
        extension: the compiled `native/recorder.cpp`.
    """

    def __init__(
        self,
        extension: Any,
        reporter: Reporter,
        streams: Streams,
        threads: ThreadContexts,
        memory: Memory,
        launches: Launches,
    ) -> None:
        self._extension = extension
        self._reporter = reporter
        self._streams = streams
        self._threads = threads
        self._memory = memory
        self._launches = launches
        self._is_simple = True  # no tensor with several parts has been seen
        self._is_on_several = False  # the extension records operators on several streams
        self._waiting = WaitingCalls()
        self._calls = reporter.call_buffer.calls

    def attach(
        self,
        mode: type,
        callbacks: Callbacks,
        gpu_trace: GpuTrace,
        host: HostMemory,
        events: Events,
        device_type: str = "cuda",
    ) -> None:
        """Start recording for this check, and detach the recorder of an earlier check."""
        global _attached  # noqa: PLW0603  the extension has global state
        earlier = None if _attached is None else _attached()
        if earlier is not None:
            earlier.detach()
        _attached = weakref.ref(self)
        reporter, streams = self._reporter, self._streams
        first = self._memory.next_ident()
        self._events = events
        self._callbacks = callbacks  # the extension outlives the check and only holds a weak reference
        self._extension.attach(
            weakref.proxy(callbacks),
            weakref.ref(reporter),
            first,
            ignore_block.running,
            gpu_trace.inside,
            host.buffers,
            self._memory.live,
            events.by_handle,
            mode,
            device_type,
        )
        self._memory.count_by(self._extension.next_allocation)
        gpu_trace.set_muted = self._extension.mute_trace
        reporter.call_buffer.add = self._add
        reporter.defer = self._defer
        reporter.before_flush.insert(0, self._before_flush)
        reporter.before_wait.append(self.complete)
        reporter.on_checking.append(self.update)
        streams.on_sole.append(self.update)
        streams.on_multiple_streams.insert(0, self.update)
        self._threads.on_context_change.append(self.update)
        self._memory.adopt = self.adopt
        self._follow_memory()

    def detach(self) -> None:
        """Disconnect from the extension: memory and threads of this check may live on, and another check reuses ids."""
        self._extension = _NoExtension()
        self._follow_memory()

    def _follow_memory(self) -> None:
        self._memory.on_used = self._extension.used_elsewhere
        self._memory.on_shared = self._extension.share
        self._memory.owners.on_change = self._extension.own
        self._memory.owners.on_clear = self._extension.share_passed_on
        self._events.on_record = self._extension.forget_event
        self._memory.on_freed = self._extension.forget

    def plan(self, dispatch: DispatchPlan, copies: Copies) -> None:
        """Register an operator with the extension if it can record it."""
        described = description(dispatch, copies)
        if described is not None:
            self._extension.set_plan(dispatch.plan.name, schema_of(dispatch.func).overload_name, described)

    def watch(self, mode: Any) -> None:
        """Handle operators in place of a dispatch mode that a thread is about to enter."""
        self._extension.watch(mode)

    def give_up(self) -> None:
        """Let the dispatch mode see everything from now on."""
        self._is_simple = False
        self.update()

    def update(self) -> None:
        """Start or stop recording, depending on the state of the program."""
        reporter, threads, sole = self._reporter, self._threads, self._streams.sole_stream
        self._is_on_several = False
        is_permanent = not (self._is_simple and reporter.is_checking and (sole >= 0 or not reporter.follows))
        is_captured = self._memory.shares_all
        if is_permanent or sole == 0 or threads.n_checked_contexts or threads.pools_in_use or is_captured:
            self._extension.stop()
            self.take_calls()
        elif sole > 0:
            self._extension.start(sole, self._streams.device_of(sole))
        else:
            reporter.call_buffer.condenses = False  # the extension condenses its own calls
            self._extension.start_multiple()
            self._is_on_several = True
        if is_permanent and reporter.is_checking:
            self._adopt_all()

    def _add(self, call: tuple[Any, ...]) -> None:
        if self._extension.has_calls():
            self.take_calls()
        self._calls.append(call)

    def _defer(self, call: tuple[Any, ...]) -> bool:
        """Add a call that returns nothing to the extension's log, if its findings may be known later."""
        is_possible = self._is_on_several and not self._may_reuse()
        if not is_possible or not self._waiting.may_wait(self._reporter.findings.n_added):
            return False
        self._extension.add_call(call)
        return True

    def take_calls(self) -> None:
        """Move the recorded calls into the call buffer."""
        if self._extension.has_calls():
            is_condensed = self._streams.sole_stream >= 0 or not self._may_reuse()
            self._extension.take_calls(is_condensed, self._calls)
            if not is_condensed:  # the time of each free now decides whether memory was in use until then
                self._adopt_all()

    def complete(self, stream: StreamId) -> None:
        """Drop the recorded accesses that are complete, and can no longer race, after the host has waited for a stream.

        Until then, an access to new memory may race with an earlier use of the same memory by another stream.
        """
        if self._streams.sole_stream == stream:
            self._extension.complete()
        elif self._streams.sole_stream == NOT_SOLE and not self._may_reuse():
            self._extension.complete_stream(stream)

    def _may_reuse(self) -> bool:
        """Return whether new memory may be memory that another stream is still using."""
        return self._memory.freed_shared or self._reporter.call_buffer.monitor.holds_used_memory()

    def _before_flush(self) -> None:
        self.take_calls()
        self._memory.freed_shared = False  # the monitor is about to be notified

    def _adopt_all(self) -> None:
        for storage in self._extension.unknown_storages():
            self.adopt(storage)

    def adopt(self, storage: torch.UntypedStorage) -> bool:
        """Enter memory that the extension saw first into the table of addresses; return whether there was any."""
        block = self._extension.take_block(storage_key(storage), storage.data_ptr())
        if block is None:
            return False
        owner, allocation, home, node = block
        self._memory.enter(owner, allocation, home)
        if node is not None:
            self._launches.gradients.made(allocation, node, home)
        return True


def description(dispatch: DispatchPlan, copies: Copies) -> dict[str, Any] | None:
    """Return the extension's description of an operator; None if it cannot record the operator."""
    plan = dispatch.plan
    if dispatch.is_composite:
        return {"name": plan.name, "kind": int(Kind.COMPOSITE)}
    if dispatch.func.namespace == "c10d" and plan.base in _IN_PLACE:
        return _described(dispatch, Kind.COLLECTIVE, None) | {"function": dispatch.func}
    kind = _KINDS.get(plan.base, Kind.ORDINARY)
    if (
        dispatch.has_rows
        or plan.effect is not None
        or dispatch.special is not copies.specials.get(plan.base if kind > Kind.ITEM else "")
    ):
        return None
    if dispatch.listens and kind is not Kind.ITEM:
        return None
    off = None
    if dispatch.off is not None:
        off = description(dispatch.off, copies)
        if off is None:
            return None
    return _described(dispatch, kind, off)


def _described(dispatch: DispatchPlan, kind: Kind, off: dict[str, Any] | None) -> dict[str, Any]:
    plan = dispatch.plan
    return {
        "name": plan.name,
        "kind": int(kind),
        "is_seen": dispatch.is_seen,
        "touches": plan.touches,
        "fresh": dispatch.fresh,
        "switch": plan.switch,
        "arguments": [(position, is_write) for position, _, _, is_write in dispatch.arguments],
        "off": off,
    }
