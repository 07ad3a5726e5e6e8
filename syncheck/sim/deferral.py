"""Execution of operators at the time that a schedule chooses, and not as they are submitted.

Without a schedule no `Deferral` exists, and each operator runs immediately. With a schedule, an operator is queued if
its stream may not run yet or has pending work. The sizes and types of its results are computed on torch's meta device,
and their memory is allocated immediately. An operator that cannot be deferred runs immediately, after all earlier work
of its stream.
"""

import atexit
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch.utils._pytree import tree_map

from syncheck.hb.ids import GraphId, StreamId
from syncheck.instrument.plan import tensors_in
from syncheck.instrument.torch_internals import BelowAutograd
from syncheck.semantics.copies import HOST_DEVICE
from syncheck.semantics.operators import ALLOCATING, OVERWRITING
from syncheck.sim.compute import Compute
from syncheck.sim.launches import OperatorCall
from syncheck.sim.observations import Observations
from syncheck.sim.placement import raw_device
from syncheck.sim.queues import Marker
from syncheck.sim.retained_storages import Operand, RetainedStorages, byte_tensor_of, fill_slots, is_plain, overwrite
from syncheck.sim.reused_memory import ReusedMemory
from syncheck.sim.runtime import Runtime
from syncheck.sim.shapes import CannotDeferError, import_meta_functions, results_of
from syncheck.sim.stream_order import StreamOrder
from syncheck.system import job
from syncheck.witness.schedule import LaunchId, Schedule

_RESIZING = frozenset({"resize_", "resize_as_"})


class Deferral:
    """Runs operators under a schedule.

    Attributes:
        observations: the values recorded during the run.
        retained: memory that submitted work still needs.
        order: the ordering between streams.
        queues: the queues of the streams.
        reused: memory for new tensors.
        at_end: callbacks that run after the program has ended and all work has run.
    """

    def __init__(self, runtime: Runtime, compute: Compute, schedule: Schedule, observations: Observations) -> None:
        self._runtime = runtime
        self._gpus = runtime.gpus
        self._memory = runtime.memory
        self._compute = compute
        self.observations = observations
        self.retained = RetainedStorages(runtime.memory)
        self.order = StreamOrder(runtime.gpus, schedule.policy(job.rank()), self.retained.recorded)
        self.queues = self.order.queues
        self.reused = ReusedMemory(runtime, self.retained, self.queues)
        self.at_end: list[Callable[[], None]] = []
        self._has_finished = False
        import_meta_functions()
        atexit.register(self.finish)
        runtime.memory.before_flush = lambda: self.retained.poll(self.order.is_pending)

    # -- operators

    def run(self, call: OperatorCall, *, host_waits: bool) -> Any:
        """Run an operator of a device now or later, and return its results, which may not have values yet."""
        stream = self._gpus.current_stream(call.device)
        with self._gpus.lock:
            if not call.plan.touches:
                return self._run_on_metadata(call, stream)
            self.submit(stream)
            if host_waits:
                self.order.finish(stream)
            elif not self.queues.is_free(stream):
                try:
                    return self._defer(call, stream)
                except CannotDeferError:
                    self.run_pending(stream, call.plan.name)
            result = self._run_now(call, stream)
            if host_waits:
                self.host_reads(tensors_in(result) or [tensor for tensor, _ in call.tensors])
            return result

    def submit(self, stream: StreamId) -> None:
        """Record the submission of a launch on a stream."""
        self.order.wait_implicitly(stream)
        self.observations.submitted(self.queues.next_launch(stream), self._gpus.site())

    def has_pending_work(self, device: int) -> bool:
        """Return whether a device's current stream has pending work, so that values may not be available yet."""
        return not self.queues.is_free(self._gpus.current_stream(device))

    def run_pending(self, stream: StreamId, what: str) -> None:
        """Run all pending work of a stream, because the next operation, `what`, cannot be deferred."""
        if self.order.finish(stream):
            self.observations.record.forced.append(f"{what} cannot be deferred")

    def run_all_pending(self, what: str) -> None:
        """Run all pending work of the current streams, because the next operation, `what`, cannot be deferred."""
        for device in self._gpus.devices:
            self.run_pending(self._gpus.current_stream(device.index), what)

    def replay(self, graph: GraphId, steps: Sequence[Callable[[], None]], used: Sequence[torch.Tensor]) -> None:
        """Replay a graph on the current stream. `used` holds tensors that the graph accesses but does not own."""
        stream = self._gpus.current_stream(self._gpus.thread.device)

        def run() -> None:
            for step in steps:
                step()
            retained.clear()

        retained = list(used)
        with self._gpus.lock:
            self.submit(stream)
            self.order.wait_for_replay(graph, stream)
            self.put(stream, run, [], [])
            self.queues.pump()

    def captured(self, owned: Iterable[torch.UntypedStorage]) -> None:
        """Invalidate the memory owned by a newly captured graph: nothing has run, so it has no values yet."""
        with self._runtime.unmonitored():
            for storage in owned:
                overwrite(byte_tensor_of(storage), torch.float32)

    def _note_ran(self, stream: StreamId) -> None:
        """Record that a launch has run immediately."""
        self.queues.ran(stream)
        self.queues.pump()

    def host_reads(self, tensors: Sequence[torch.Tensor]) -> None:
        """Record that the host reads the values of tensors."""
        for tensor in tensors:
            with self._runtime.unmonitored():
                self.observations.record_host_read(tensor, self._gpus.site())

    def finish(self) -> None:
        """Run the remaining work at the end of the program and record its results, while its variables are alive."""
        if self._has_finished:
            return
        self._has_finished = True
        with self._gpus.lock, self._runtime.unmonitored():
            self.queues.finish_all()
            for act in self.at_end:
                act()
            self.retained.poll(self.order.is_pending)
            self.observations.end(self._memory)

    @contextmanager
    def resizing(self, storage: torch.UntypedStorage, n_bytes: int) -> Iterator[None]:
        """Replace the memory of a storage, which the caller resizes inside this context manager.

        The current stream copies the contents, so its pending work runs before. Work of other streams continues with
        the old memory.

        Source:
            aten/src/ATen/native/cuda/Resize.cpp, `resize_bytes_cuda`.
        """
        allocation = self._memory.of_storage(storage)
        device = HOST_DEVICE if allocation is None else allocation.device
        dtype = torch.float32 if allocation is None or allocation.layout is None else allocation.layout[0]
        kept = min(storage.nbytes(), n_bytes)
        with self._gpus.lock, self._runtime.unmonitored():
            if kept and device != HOST_DEVICE:
                self.run_pending(self._gpus.current_stream(device), "a resize that keeps values")
            self.retained.before_resize(storage, self.order.is_pending)
            yield
            if device != HOST_DEVICE:
                self.reused.overwrite_freed(n_bytes, device, self._gpus.current_stream(device))
            overwrite(byte_tensor_of(storage)[kept:], dtype)

    # -- now

    def _run_on_metadata(self, call: OperatorCall, stream: StreamId) -> Any:
        resizing: AbstractContextManager[None] = nullcontext()
        if call.plan.base in _RESIZING:
            storage, n_bytes = call.args[0].untyped_storage(), _resized_bytes(call)
            if n_bytes > storage.nbytes():
                resizing = self.resizing(storage, n_bytes)
        with resizing:
            result = self._compute.run(call.func, call.plan, call.args, call.kwargs, call.device)
        if call.plan.base in ALLOCATING:
            with self._runtime.unmonitored(), BelowAutograd():
                for tensor in tensors_in(result):
                    if tensor.layout is torch.strided:
                        self.reused.assign_memory(tensor, call.device, stream)
        return result

    def _run_now(self, call: OperatorCall, stream: StreamId) -> Any:
        launch = self.queues.next_launch(stream)
        is_watched = launch in self.observations.watched
        self.note_reads(launch, _read(call))
        result = self._compute.run(call.func, call.plan, call.args, call.kwargs, call.device)
        fresh = self._fresh(result)
        with self._runtime.unmonitored(), BelowAutograd():
            for tensor in fresh:
                self.reused.reuse_freed(tensor, call.device, stream, is_filled=True)
            if is_watched:
                written = [tensor for tensor, argument in call.tensors if argument.is_write]
                self._note_writes(launch, [self.retained.keep(tensor) for tensor in (*written, *fresh)])
        self._note_ran(stream)
        return result

    def _fresh(self, result: Any) -> list[torch.Tensor]:
        """Return the new tensors among an operator's results."""
        return [t for t in tensors_in(result) if t.layout is torch.strided and self._is_new(t)]

    def note_reads(self, launch: LaunchId, tensors: list[torch.Tensor]) -> None:
        """Record the values of the tensors that a watched launch is about to read."""
        if launch not in self.observations.watched:
            return
        with self._runtime.unmonitored(), BelowAutograd():
            self.observations.reads(launch, tensors)

    # -- later

    def _defer(self, call: OperatorCall, stream: StreamId) -> Any:
        """Queue an operator on its stream, and return its results, which have memory but no values yet."""
        func, plan, tensors, args, kwargs, device = call
        if any(not is_plain(tensor) for tensor, _ in tensors):
            raise CannotDeferError
        with self._runtime.unmonitored(), BelowAutograd():
            results = results_of(func, plan, args, kwargs)
            drawing = self._compute.drawing_deferred(plan, args, kwargs, device)
            results = tree_map(lambda value: self._allocate_result(value, device, stream), results)
            fresh = [(index, self.retained.keep(t)) for index, t in enumerate(tensors_in(results)) if self._is_new(t)]
            slots, held = self.retained.slots_of((args, kwargs))
            written = [self.retained.keep(tensor) for tensor, argument in tensors if argument.is_write]
            read = [self.retained.keep(tensor) for tensor in _read(call)]
        has_grad = torch.is_grad_enabled()  # an LSTM saves state for its backward pass only if grad mode is on

        def compute() -> None:
            inputs, named = fill_slots(slots)
            with torch.set_grad_enabled(has_grad), drawing():
                results = tensors_in(self._compute.run(func, plan, inputs, named, device))
            for index, target in fresh:
                target.tensor().copy_(results[index])

        self.put(stream, compute, read, [*written, *(operand for _, operand in fresh)], held)
        return results

    def put(
        self,
        stream: StreamId,
        compute: Callable[[], None],
        read: list[Operand],
        written: list[Operand],
        held: Sequence[Operand] = (),
        is_ready: Callable[[], bool] = lambda: True,
        launch: LaunchId | None = None,
    ) -> None:
        """Queue a launch on a stream.

        Args:
            stream: the stream.
            compute: runs the launch.
            read: operands that it reads. They are released after it has run, like those in `written` and `held`.
            written: operands that it writes.
            held: other operands that it needs.
            is_ready: returns whether it may run before something has to wait for it.
            launch: the launch's number; None for the next number of the stream.
        """
        launch = launch or self.queues.next_launch(stream)
        is_watched = launch in self.observations.watched

        def run() -> None:
            with self._runtime.unmonitored(), BelowAutograd():
                if read:
                    self.note_reads(launch, [operand.tensor() for operand in read])
                compute()
                if is_watched:
                    self._note_writes(launch, written)
                self._release((*read, *held, *(() if is_watched else written)))

        self.queues.put(stream, run, is_ready=is_ready, launch=launch)

    def _note_writes(self, launch: LaunchId, written: list[Operand]) -> None:
        """Record the results of a watched launch. The memory that it wrote is kept for later inspection."""
        self.retained.watch(written)
        self.observations.wrote(launch, written)

    def _release(self, operands: Iterable[Operand]) -> None:
        for operand in operands:
            self.retained.release(operand)

    def _allocate_result(self, value: Any, device: int, stream: StreamId) -> Any:
        """Return memory for a result of which only the metadata is known; return other values unchanged."""
        if not isinstance(value, torch.Tensor) or raw_device(value).type != "meta":
            return value
        made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)
        self.reused.assign_memory(made, device, stream)
        return made

    def assign_memory(self, tensor: torch.Tensor, device: int) -> None:
        """Give a new tensor of a device its memory, without values. A host tensor keeps its own memory."""
        if device == HOST_DEVICE:
            self.reused.fill(tensor)
            return
        with self._gpus.lock, self._runtime.unmonitored():
            self.reused.assign_memory(tensor, device, self._gpus.current_stream(device))

    def _is_new(self, tensor: torch.Tensor) -> bool:
        return self._memory.of(tensor) is None

    # -- copies

    def copy(self, stream: StreamId, target: torch.Tensor, source: torch.Tensor, *, snapshot: bool) -> None:
        """Copy on a stream. `snapshot`: the source is host memory that the host has finished reading on return."""
        with self._gpus.lock, self._runtime.unmonitored(), BelowAutograd():
            self.submit(stream)
            if not (is_plain(target) and is_plain(source)):
                self.run_pending(stream, "a copy of a conjugate or negative view")
                target.copy_(source)
                self._note_ran(stream)
                return
            to, origin = self.retained.keep(target), self.retained.keep(source.detach().clone() if snapshot else source)
            self.put(stream, lambda: _copy(to, origin), [origin], [to])
            self.queues.pump()

    # -- collectives

    def run_immediately(
        self, stream: StreamId, act: Callable[[], None], read: list[torch.Tensor], written: list[torch.Tensor]
    ) -> None:
        """Run a launch on a free stream immediately, without blocking the launches of other threads."""
        launch = self.queues.next_launch(stream)
        is_watched = launch in self.observations.watched
        with self._runtime.unmonitored(), BelowAutograd():
            self.note_reads(launch, read)
            act()
            with self._gpus.lock:
                if is_watched:
                    self._note_writes(launch, [self.retained.keep(tensor) for tensor in written])
                self._note_ran(stream)

    def finish_until(self, marker: Marker) -> bool:
        """Run everything up to a marker, and return whether anything was pending."""
        if self.queues.is_done(marker):
            return False
        self.queues.finish(marker)
        self.queues.pump()
        return True


def _read(call: OperatorCall) -> list[torch.Tensor]:
    """Return the tensors whose values an operator reads. It does not read those passed as `out=` or overwritten."""
    changes = call.plan.base.endswith("_") and call.plan.base not in OVERWRITING
    return [tensor for tensor, argument in call.tensors if argument.is_read and (changes or not argument.is_write)]


def _resized_bytes(call: OperatorCall) -> int:
    """Return the number of bytes that a tensor needs after `resize_(shape)` or `resize_as_(tensor)`."""
    tensor, shape = call.args[:2]
    n_elements = shape.numel() if isinstance(shape, torch.Tensor) else math.prod(shape)
    return int(tensor.element_size() * (tensor.storage_offset() + n_elements)) if n_elements else 0


def _copy(target: Operand, source: Operand) -> None:
    target.tensor().copy_(source.tensor())
