"""CUDA graphs on virtual devices: a capture records operators and undoes their effects; a replay runs them again."""

import weakref
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._pytree import tree_map

from syncheck.hb.ids import Accesses, GraphId, StreamId
from syncheck.instrument.plan import Plan, tensors_in
from syncheck.instrument.torch_internals import BelowAutograd, storage_key, storage_key_of, storage_owners
from syncheck.semantics.copies import HOST_DEVICE
from syncheck.sim.compute import Compute
from syncheck.sim.errors import NotSimulatedError, cuda_error
from syncheck.sim.launches import Launches, OperatorCall
from syncheck.sim.random import DeviceGenerator, save_generators
from syncheck.sim.runtime import Runtime


@dataclass(frozen=True, slots=True)
class _ExternalTensor:
    """A tensor that the graph accesses but does not own: it depends on the address and does not keep the memory alive.

    Attributes:
        substitutes: memory in place of freed memory, by the id of its weak reference. All tensors in it share one.
    """

    storage: "weakref.ref[torch.UntypedStorage]"
    n_bytes: int
    substitutes: dict[int, torch.UntypedStorage]
    dtype: torch.dtype
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]

    def tensor(self) -> torch.Tensor:
        """Return the tensor, in substitute memory if its own was freed. A GPU would use whatever is at that address."""
        storage = self.storage()
        if storage is None:
            storage = self.substitutes.get(id(self.storage))
        if storage is None:
            storage = self.substitutes[id(self.storage)] = torch.zeros(
                self.n_bytes, dtype=torch.uint8
            ).untyped_storage()
        return torch.empty(0, dtype=self.dtype).set_(storage, self.offset, self.size, self.stride)


@dataclass(slots=True, weakref_slot=True)
class Tape:
    """The operators of one graph, each as a function that runs it again.

    Attributes:
        steps: these functions, in order.
        owned: storage key -> storage that the graph owns.
        holds: storage key -> number of references of the graph to an owned storage that the program has not freed yet.
        before: storage key -> (storage outside the graph, copy of its contents before the capture).
        is_valid: whether the capture can still succeed.
        generators: random number generators that the program has registered with the graph.
        restore_generators: restores the state of all generators before the capture.
        substitutes: memory in place of freed memory outside the graph.
        n_launches: number of launches on captured streams.
        external: the tensors that the graph accesses but does not own.
        has_branches: whether other streams take part in the capture.
    """

    ident: GraphId
    stream: StreamId
    steps: list[Callable[[], None]] = field(default_factory=list)
    owned: dict[int, torch.UntypedStorage] = field(default_factory=dict)
    holds: Counter[int] = field(default_factory=Counter)
    before: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]] = field(default_factory=dict)
    is_valid: bool = True
    generators: list[DeviceGenerator] = field(default_factory=list)
    restore_generators: Callable[[], None] = lambda: None
    substitutes: dict[int, torch.UntypedStorage] = field(default_factory=dict)
    n_launches: int = 0
    external: list[_ExternalTensor] = field(default_factory=list)
    has_branches: bool = False

    def own(self, storage: torch.UntypedStorage) -> None:
        """Keep memory that was allocated in the capture."""
        key = storage_key(storage)
        self.holds[key] += key not in self.owned
        self.owned[key] = storage

    def freed(self) -> list[int]:
        """Return the keys of the owned storages that only the graph still uses, each once."""
        keys = [key for key, count in self.holds.items() if storage_owners(self.owned[key]) <= count]
        for key in keys:
            del self.holds[key]
        return keys


class GraphRecorder:
    """Records the capture in progress."""

    def __init__(self, runtime: Runtime, compute: Compute, launches: Launches) -> None:
        self._runtime = runtime
        self._launches = launches
        self._compute = compute
        self._tape: Tape | None = None
        self._tapes: list[weakref.ref[Tape]] = []
        runtime.on_rejected_call.append(self._invalidate)

    def begin(self, tape: Tape) -> None:
        """Start recording."""
        if self._tape is not None:
            if not self._runtime.capture_mode.prohibits():
                raise NotSimulatedError("a capture during another one")
            raise cuda_error("operation not permitted when stream is capturing")
        self._report_frees()
        self._tape = tape
        self._tapes.append(weakref.ref(tape))
        tape.restore_generators = save_generators()
        self._runtime.is_capturing = True
        self._runtime.n_captures += 1
        self._launches.before_launch.append(self._count)

    def end(self) -> Tape:
        """Stop recording, and undo what the operators did to memory outside the graph, because a capture runs nothing.

        It draws no random numbers either: a replay draws them, from the generator's state at that time.
        """
        tape = self._tape
        assert tape is not None
        self._tape = None
        self._runtime.is_capturing = False
        self._launches.before_launch.remove(self._count)
        with self._runtime.unmonitored():
            for storage, saved in tape.before.values():
                if storage.nbytes() == saved.nbytes():
                    storage.copy_(saved)
        tape.before.clear()
        tape.restore_generators()
        self._report_frees()
        return tape

    def _report_frees(self) -> None:
        """Free the memory of graphs that the program no longer holds: later captures with the same pool may take it."""
        tapes = [tape for reference in self._tapes if (tape := reference()) is not None]
        for tape in tapes:
            self._drop_freed(tape)
        self._tapes = [weakref.ref(tape) for tape in tapes if tape.holds]
        self._runtime.memory.flush()

    def _drop_freed(self, tape: Tape) -> None:
        for key in tape.freed():
            self._runtime.memory.drop(key, is_late=True)

    def _count(self, stream: StreamId, accesses: Accesses) -> None:
        """Count a launch on a captured stream before it is reported."""
        del accesses
        if self._tape is not None and self._runtime.gpus.monitor.capturing(stream):
            self._tape.n_launches += 1
            self._tape.has_branches |= stream != self._tape.stream

    def _invalidate(self) -> None:
        """Mark the capture as failed after a forbidden call."""
        if self._tape is not None:
            self._tape.is_valid = False

    def run(self, call: OperatorCall) -> Any:
        """Run a device's operator to get the shape of its result, and record how to run it again."""
        func, plan, tensors, args, kwargs, device = call
        tape = self._tape
        assert tape is not None
        self._compute.check_captured_generator(plan, args, kwargs, tape.generators)
        if tape.has_branches:  # this operator may get memory that another branch still uses
            self._drop_freed(tape)
        with self._runtime.unmonitored():
            for tensor, argument in tensors:
                if argument.is_write:
                    self._save(tape, tensor)
        inputs = {storage_key_of(t) for t, _ in tensors}
        result = self._compute.run(func, plan, args, kwargs, device)
        outputs = tensors_in(result)
        fresh = [t for t in outputs if storage_key_of(t) not in inputs]
        for tensor in fresh:
            tape.own(tensor.untyped_storage())
        if plan.touches:
            targets = [(index, self._slot(tape, t)) for index, t in enumerate(outputs) if any(t is f for f in fresh)]
            slots = tree_map(lambda value: self._slot(tape, value, copies_host=True), (args, kwargs))
            drawing = self._compute.drawing_at_replay(plan, args, kwargs, device)
            tape.steps.append(self._step(func, plan, slots, targets, device, drawing))
        return result

    def _save(self, tape: Tape, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        key = storage_key(storage)
        if key not in tape.owned and key not in tape.before:
            copy = torch.UntypedStorage(storage.nbytes())  # type: ignore[no-untyped-call]  # torch leaves it untyped
            copy.copy_(storage)
            tape.before[key] = (storage, copy)

    def _slot(self, tape: Tape, value: Any, *, copies_host: bool = False) -> Any:
        """Return a placeholder for a value in a replay. `copies_host`: store a host tensor with its current values.

        A GPU operator takes host numbers and indices as arguments of its kernel.
        """
        if not isinstance(value, torch.Tensor):
            return value
        with self._runtime.unmonitored():
            if copies_host and self._runtime.memory.device(value) == HOST_DEVICE:
                return value.detach().clone()
            storage = value.untyped_storage()
            if storage_key(storage) in tape.owned:
                tape.holds[storage_key(storage)] += 1
                return value.detach()
            layout = (value.dtype, int(value.storage_offset()), tuple(value.shape), value.stride())
            found = _ExternalTensor(weakref.ref(storage), storage.nbytes(), tape.substitutes, *layout)
            tape.external.append(found)
            return found

    def _step(
        self,
        func: Any,
        plan: Plan,
        slots: Any,
        targets: list[tuple[int, torch.Tensor]],
        device: int,
        drawing: Callable[[], AbstractContextManager[None]],
    ) -> Callable[[], None]:
        has_grad = torch.is_grad_enabled()  # an LSTM saves state for its backward pass only if grad mode is on

        def step() -> None:
            args, kwargs = tree_map(_value_of, slots)
            with torch.set_grad_enabled(has_grad), BelowAutograd(), drawing():
                results = tensors_in(self._compute.run(func, plan, args, kwargs, device))
            for index, target in targets:
                target.copy_(results[index])

        return step

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """Record a copy between devices into an existing tensor. Host memory is read at each replay."""
        tape = self._tape
        assert tape is not None
        with self._runtime.unmonitored():
            self._save(tape, target)
            target.copy_(source)
        self._add_copy(tape, target, source)

    def note_copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """Record a copy between devices whose result is a new tensor."""
        tape = self._tape
        if tape is None:
            return
        tape.own(target.untyped_storage())
        self._add_copy(tape, target, source)

    def _add_copy(self, tape: Tape, target: torch.Tensor, source: torch.Tensor) -> None:
        to, origin = self._slot(tape, target), self._slot(tape, source)

        def step() -> None:
            _value_of(to).copy_(_value_of(origin))

        tape.steps.append(step)


def _value_of(slot: Any) -> Any:
    """Return the value for a placeholder made by `GraphRecorder._slot`."""
    return slot.tensor() if isinstance(slot, _ExternalTensor) else slot
