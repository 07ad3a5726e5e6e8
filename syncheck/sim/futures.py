"""Futures of collectives: waiting for one orders the current stream, and callbacks run on separate streams.

Source:
    aten/src/ATen/core/ivalue_inl.h, `Future::wait`, `synchronizeWithCurrentStreams`, `invokeCallback`: a callback gets
    a stream of the pool that waits for the value, and its result counts as produced on that stream. The value's memory
    is kept for the waiting stream (`recordDataPtrOnStream`). `value()` does not wait.
"""

import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Protocol

import torch

from syncheck.hb.ids import AllocationId, StreamId, WaitCall
from syncheck.instrument.patching import Patches
from syncheck.instrument.plan import tensors_in
from syncheck.instrument.torch_internals import C
from syncheck.sim.started import StartedCollective
from syncheck.sim.virtual_gpus import VirtualGpus


class _Collectives(Protocol):
    """The interface of `syncheck.sim.distributed.Distributed` that futures need."""

    def join(self, started: StartedCollective) -> None: ...

    def add_ddp_pending(self, started: StartedCollective, idents: frozenset[AllocationId]) -> None: ...

    def new_callback_end(self, started: StartedCollective) -> StartedCollective: ...

    def record_end(
        self, work: Any, stream: StreamId, tensors: list[torch.Tensor], group: str = ""
    ) -> StartedCollective: ...

    def idents(self, tensors: Iterable[torch.Tensor]) -> frozenset[AllocationId]: ...

    def record(self, tensors: Iterable[torch.Tensor], stream: StreamId) -> None: ...


class Futures:
    """Tracks the collectives or callbacks that futures stand for."""

    def __init__(self, collectives: _Collectives, gpus: VirtualGpus) -> None:
        self._collectives = collectives
        self._gpus = gpus
        self._known: dict[int, tuple[Any, StartedCollective, frozenset[AllocationId]]] = {}
        self._latest: tuple[StartedCollective, frozenset[AllocationId]] | None = None
        self._with_devices: weakref.WeakSet[Any] = weakref.WeakSet()

    def register(self, future: Any, started: StartedCollective, idents: frozenset[AllocationId]) -> None:
        """Register the future of a collective."""
        key = id(future)
        gone = weakref.ref(future, lambda _: self._known.pop(key, None))
        self._known[key] = (gone, started, idents)
        self._latest = started, idents

    def give_to_reducer(self, future: Any) -> None:
        """Record that a communication hook returned a future. DDP's reducer waits for it, unobserved.

        Source:
            torch/csrc/distributed/c10d/reducer.cpp, `Reducer::finalize_backward`.
        """
        known = self._known.get(id(future))
        if known is not None:
            _, started, idents = known
            started.is_for_reducer = True
            self._collectives.add_ddp_pending(started, idents | self._collectives.idents(started.tensors))

    def run_comm_hook(self, run_hook: Callable[[], Any]) -> Any:
        """Run a communication hook called by C++ code, and return its future, which C++ passes on as another object."""
        self._latest = None
        future = run_hook()
        if self._latest is not None:
            self.register(future, *self._latest)
        return future

    def install(self, patches: Patches) -> None:
        """Patch the methods that wait and those that register callbacks."""
        kind = C.Future
        original_wait, original_then = kind.wait, kind.then

        @wraps(original_wait)
        def wait(future: Any) -> Any:
            result = original_wait(future)
            known = self._known.get(id(future))
            if known is not None:
                self._collectives.join(known[1])
                current = self._gpus.current_stream(self._gpus.device_of(known[1].stream))
                self._collectives.record(tensors_in(result), current)
            return result

        @wraps(original_then)
        def then(future: Any, callback: Callable[[Any], Any]) -> Any:
            known = self._known.get(id(future))
            if known is None and future in self._with_devices and not future.done():
                return self._then_once_set(original_then, future, callback)
            if known is None:
                return original_then(future, callback)
            _, started, idents = known
            end = self._collectives.new_callback_end(started)

            def on_side(value: Any) -> Any:
                self._collectives.record(started.tensors, end.stream)
                returned = self._run_callback(callback, value, started, end)
                if end.is_for_reducer:
                    self._collectives.add_ddp_pending(end, self._collectives.idents(end.tensors))
                return returned

            result = original_then(future, on_side)
            self.register(result, end, idents)
            return result

        patches.set(kind, "wait", wait)
        patches.set(kind, "then", then)
        self._install_devices(patches)

    def _install_devices(self, patches: Patches) -> None:
        """Patch the creation of futures with devices. The build of torch for the CPU has none.

        Source:
            aten/src/ATen/core/ivalue_inl.h, `Future::markCompleted`: it records an event on the current stream of each
            device that holds a tensor of the value.
        """
        kind = torch.futures.Future
        original_init, original_set = kind.__init__, kind.set_result

        @wraps(original_init)
        def initialize(future: Any, *, devices: Any = None) -> None:
            original_init(future)
            if any(torch.device(device).type != "cpu" for device in devices or ()):
                self._with_devices.add(future)

        @wraps(original_set)
        def set_result(future: Any, result: Any) -> None:
            tensors = tensors_in(result) if future in self._with_devices else []
            device = next((tensor.device.index for tensor in tensors if tensor.is_cuda), None)
            if device is not None:
                end = self._collectives.record_end(None, self._gpus.current_stream(device), tensors)
                self.register(future, end, self._collectives.idents(tensors))
            original_set(future, result)

        patches.set(kind, "__init__", initialize)
        patches.set(kind, "set_result", set_result)

    def _then_once_set(self, original_then: Any, future: Any, callback: Callable[[Any], Any]) -> Any:
        """Register a callback of a future with devices, which runs on a stream of its own once the value is set."""
        made: list[Any] = []

        def on_side(value: Any) -> Any:
            known = self._known.get(id(value))
            if known is None:  # the value is not on a GPU
                return callback(value)
            _, started, idents = known
            end = self._collectives.new_callback_end(started)
            returned = self._run_callback(callback, value, started, end)
            self.register(made[0], end, idents)
            return returned

        made.append(original_then(future, on_side))
        return made[0]

    def _run_callback(
        self, callback: Callable[[Any], Any], value: Any, started: StartedCollective, end: StartedCollective
    ) -> Any:
        """Run a callback on the stream of `end`, and add the tensors that it returns to it."""
        with self._on_callback_stream(started, end):
            returned = callback(value)
        end.tensors += tensors_in(returned)
        return returned

    @contextmanager
    def _on_callback_stream(self, started: StartedCollective, end: StartedCollective) -> Iterator[None]:
        """Run a block on the stream of `end`, after making it wait for `started`, and record `end` afterwards."""
        gpus, state = self._gpus, self._gpus.thread
        before, was_explicit = gpus.current_stream(gpus.device_of(end.stream)), state.set_explicitly
        gpus.monitor.wait(started.event, end.stream, gpus.site(), WaitCall.TORCH)
        gpus.set_stream(end.stream)
        try:
            yield
        finally:
            gpus.set_stream(before)
            state.set_explicitly = was_explicit
            gpus.monitor.record(end.event, end.stream, gpus.site())
