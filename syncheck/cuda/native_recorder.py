"""Operators of one stream are recorded in C++, as long as nothing can race; the dispatch mode sees all others.

`native/recorder.cpp` has the other half. It does what `Operators.log` does for an operator that neither waits nor
records an event, while all work and all memory is on one stream. What it has recorded goes into the buffer of calls in
its order: before any other call is added, and before the monitor is asked for anything.
"""

import weakref
from enum import IntEnum
from types import CodeType, FrameType
from typing import Any

import torch

from syncheck.cuda.copies import Copies
from syncheck.cuda.dispatch_plan import DispatchPlan
from syncheck.cuda.gpu_trace import GpuTrace
from syncheck.cuda.host import HostMemory
from syncheck.cuda.memory import Memory
from syncheck.cuda.reporter import Reporter
from syncheck.cuda.streams import Streams
from syncheck.cuda.thread_contexts import ThreadContexts
from syncheck.filters import ignore_block
from syncheck.hb.ids import SiteId, ViewId
from syncheck.instrument.sites import SiteTable
from syncheck.instrument.torch_internals import schema_of


class Kind(IntEnum):
    """When an operator is one for the native recorder; `Kind` of recorder.cpp."""

    ORDINARY = 0
    ITEM = 1
    TO_COPY = 2
    COPY = 3
    FOREACH_COPY = 4


_KINDS = {
    "_local_scalar_dense": Kind.ITEM,
    "_to_copy": Kind.TO_COPY,
    "copy_": Kind.COPY,
    "_foreach_copy_": Kind.FOREACH_COPY,
}


class Callbacks:
    """What the extension asks of Python; it holds the interpreter lock."""

    def __init__(self, reporter: Reporter, memory: Memory) -> None:
        self._reporter = reporter
        self._sites: SiteTable = reporter.sites
        self._memory = memory

    def is_users(self, code: CodeType) -> bool:
        """Return whether a code object is the user's, and keep it."""
        return self._sites.is_users(code)

    def site(self, frame: FrameType) -> SiteId:
        """Return the call site that ends in a frame."""
        return self._sites.near(frame, self._reporter.backward_site)

    def allocation_of(self, tensor: torch.Tensor) -> int:
        """Return the allocation that a tensor on a GPU lies in; 0 if it has no memory."""
        access = self._memory.current_access(tensor)
        return 0 if access is None else access[0]

    def extent(self, offset: int, n_bytes: int) -> ViewId:
        """Return the view of bytes at an offset in an allocation."""
        return self._memory.extent(offset, n_bytes)

    def view(self, tensor: torch.Tensor) -> ViewId:
        """Return the view of a tensor that is not contiguous."""
        return self._memory.exact_view(tensor)

    def flush(self) -> None:
        """Give the session what was recorded."""
        self._reporter.flush_calls()

    def failed(self, operator: str, text: str) -> None:
        """An operator could not be recorded."""
        self._reporter.report_failure(operator, RuntimeError(text))


class NativeRecorder:
    """Keeps the extension in step with the parts of the backend.

    Args:
        extension: the compiled `native/recorder.cpp`.
    """

    def __init__(
        self, extension: Any, reporter: Reporter, streams: Streams, threads: ThreadContexts, memory: Memory
    ) -> None:
        self._extension = extension
        self._reporter = reporter
        self._streams = streams
        self._threads = threads
        self._memory = memory
        self._is_simple = True  # no tensor has parts that count by themselves
        self._calls = reporter.call_buffer.calls

    def attach(
        self, mode: type, callbacks: Callbacks, gpu_trace: GpuTrace, host: HostMemory, device_type: str = "cuda"
    ) -> None:
        """Begin to follow what the program does."""
        reporter, streams = self._reporter, self._streams
        first = self._memory.next_ident()
        self._callbacks = callbacks  # the extension, which outlives the check, does not keep them
        self._extension.attach(
            weakref.proxy(callbacks),
            weakref.ref(reporter),
            first,
            ignore_block.running,
            gpu_trace.inside,
            host.buffers,
            mode,
            device_type,
        )
        self._memory.count_by(self._extension.next_allocation)
        reporter.call_buffer.add = self._add
        reporter.before_flush.insert(0, self.take_calls)
        reporter.on_checking.append(self.update)
        streams.on_sole.append(self.update)
        streams.on_several.insert(0, self.update)
        self._threads.on_special.append(self.update)
        self._memory.catch_up = self.take_blocks

    def plan(self, dispatch: DispatchPlan, copies: Copies) -> None:
        """Let the extension record an operator, if it can."""
        described = description(dispatch, copies)
        if described is not None:
            self._extension.set_plan(dispatch.plan.name, schema_of(dispatch.func).overload_name, described)

    def watch(self, mode: Any) -> None:
        """Take over the work of a dispatch mode that a thread is about to enter."""
        self._extension.watch(mode)

    def give_up(self) -> None:
        """From now on the mode sees everything."""
        self._is_simple = False
        self.update()

    def update(self) -> None:
        """Record from now on, or do not, as the state of the program allows."""
        stream = self._streams.sole_stream
        threads = self._threads
        if (
            self._is_simple
            and stream > 0
            and self._reporter.is_checking
            and not (threads.n_special or threads.pools_in_use)
        ):
            self._extension.start(stream, self._streams.device_of(stream))
            return
        self._extension.stop()
        self.take_calls()
        self.take_blocks()

    def _add(self, call: tuple[Any, ...]) -> None:
        if self._extension.has_calls():
            self.take_calls()
        self._calls.append(call)

    def take_calls(self) -> None:
        """Put what was recorded into the buffer of calls."""
        if self._extension.has_calls():
            self._calls.extend(self._extension.take_calls())

    def take_blocks(self) -> None:
        """Enter the memory that the extension saw first into the table of addresses."""
        if self._extension.has_blocks():
            for allocation, storage in self._extension.take_blocks():
                self._memory.adopt(storage, allocation)


def description(dispatch: DispatchPlan, copies: Copies) -> dict[str, Any] | None:
    """Return what the extension needs of an operator's plan; None for one that it cannot record."""
    plan = dispatch.plan
    kind = _KINDS.get(plan.base, Kind.ORDINARY)
    is_for_mode = dispatch.is_composite or dispatch.has_rows or plan.effect is not None
    if is_for_mode or dispatch.special is not copies.specials.get(plan.base if kind > Kind.ITEM else ""):
        return None
    if dispatch.listens and kind is not Kind.ITEM:
        return None
    evaluating = None
    if dispatch.evaluating is not None:
        evaluating = description(dispatch.evaluating, copies)
        if evaluating is None:
            return None
    return {
        "name": plan.name,
        "kind": int(kind),
        "is_seen": dispatch.is_seen,
        "touches": plan.touches,
        "fresh": dispatch.fresh,
        "training": plan.training,
        "arguments": [(position, is_write) for position, _, _, is_write in dispatch.arguments],
        "evaluating": evaluating,
    }
